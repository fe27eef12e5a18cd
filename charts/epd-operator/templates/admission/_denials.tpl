{{- /*
Refusals of specs in which several fields together cannot work. docs/admission.md explains each under the same name.
`wrong` is CEL for the paths of the wrong fields of self, which is the new or the old object. A path that was already
wrong in the old object is accepted. `message` is the problem and the fix.
*/ -}}
{{- define "epd.admission.denials" -}}
- name: FrontendsCutOff
  wrong: >-
    self.spec.frontend.mediaDecoding == 'Frontend'
    && self.spec.transfer.ucx.transports.all(t, t in {{ include "epd.admission.localTransports" . }})
    ? ['spec.transfer.ucx.transports'] : []
  message: >-
    these transports work only inside a pod, but with mediaDecoding Frontend, frontends send pixels to other pods. Add tcp,
    or set spec.frontend.mediaDecoding to Worker.
- name: BudgetTooSmall
  wrong: >-
    has(self.spec.scaling.gpuBudget) && self.spec.scaling.gpuBudget < self.stages.filter(s, s.name != 'frontend').map(s,
    int(has(s.spec.autoscaling) ? s.spec.autoscaling.minReplicas : s.spec.replicas)
    * int(has(s.spec.gpusPerReplica) ? s.spec.gpusPerReplica : 1)).sum() ? ['spec.scaling.gpuBudget'] : []
  message: >-
    less than the GPUs of all stages at their minimum number of replicas. Raise the budget, or lower minReplicas (or
    replicas, for stages without autoscaling).
- name: NoKVCache
  wrong: >-
    self.stages.filter(s, s.name in ['frontend', 'encoder'] && has(s.spec.autoscaling) && has(s.spec.autoscaling.metrics)
    && s.spec.autoscaling.metrics.exists(m, m.type == 'KVCacheUsage')).map(s, 'spec.' + s.name + '.autoscaling.metrics')
  message: >-
    this stage has no KV cache, so the metric KVCacheUsage is always missing and the stage would never scale down. Use the
    metric Requests.
- name: CacheAboveLimit
  wrong: >-
    self.stages.filter(s, has(s.spec.embeddingCache) && has(s.spec.resources) && has(s.spec.resources.limits)
    && 'memory' in s.spec.resources.limits
    && quantity(s.spec.embeddingCache).compareTo(quantity(s.spec.resources.limits['memory'])) >= 0)
    .map(s, 'spec.' + s.name + '.embeddingCache')
  message: >-
    must be below resources.limits.memory. Otherwise the container is killed before the cache is full. Lower
    embeddingCache, or raise the memory limit.
- name: HugePages
  wrong: >-
    self.stages.filter(s, has(s.spec.resources)).map(s, {'path': dyn('spec.' + s.name + '.resources'),
    'requests': has(s.spec.resources.requests) ? s.spec.resources.requests : dyn({}),
    'limits': has(s.spec.resources.limits) ? s.spec.resources.limits : dyn({})})
    .filter(s, s.requests.exists(r, r.startsWith('hugepages-')
    && (!(r in s.limits) || quantity(s.requests[r]).compareTo(quantity(s.limits[r])) != 0))
    || (s.limits.exists(r, r.startsWith('hugepages-'))
    && !['cpu', 'memory'].exists(r, r in s.requests || r in s.limits))).map(s, s.path)
  message: >-
    Kubernetes requires an equal request and limit for hugepages, and in addition cpu or memory. Set both.
- name: TwoMountsAtOnePath
  wrong: >-
    self.templates.filter(t, has(t.spec.volumeMounts) && t.spec.volumeMounts.exists(m,
    t.spec.volumeMounts.exists(other, other.mountPath == m.mountPath + '/') || (has(self.spec.model.storage)
    && (m.mountPath + '/').replace('//', '/') == (self.spec.model.storage.mountPath + '/').replace('//', '/'))))
    .map(t, t.path + '.volumeMounts')
  message: >-
    two volumes at one path, written with and without a slash at its end (model.storage counts). Set another path for one of
    them.
- name: TwoVolumeSources
  wrong: >-
    self.templates.filter(t, has(t.spec.volumes) && t.spec.volumes.exists(v,
    v.filter(k, k != 'name' && v[k] != null).size() > 1)).map(t, t.path + '.volumes')
  message: >-
    a volume has more than one source, but Kubernetes allows only one. Remove the others.
{{- end }}

{{- /*
Names of transports and aliases in UCX (ucp_context.c and the transports of uct), as in the library of NIXL 1.4.1. UCX
compares them with regard to case, and ignores others with a warning in the log.
*/ -}}
{{- define "epd.admission.networkTransports" -}}
['all', 'tcp', 'ib', 'rc', 'rc_v', 'rc_x', 'rc_verbs', 'rc_mlx5', 'rc_gda', 'rc_gdp', 'ud', 'ud_v', 'ud_x', 'ud_verbs',
'ud_mlx5', 'dc', 'dc_x', 'dc_mlx5', 'gga', 'gga_mlx5', 'srd', 'rocm', 'rocm_copy', 'rocm_gdr', 'rocm_ipc', 'ze', 'ze_copy',
'ze_gdr', 'ze_ipc', 'ugni', 'ugni_rdma', 'ugni_smsg', 'ugni_udt']
{{- end }}

{{- /* UCX transports that work only inside a pod, as in the CRD. */ -}}
{{- define "epd.admission.localTransports" -}}
['self', 'sm', 'shm', 'posix', 'sysv', 'mm', 'xpmem', 'cma', 'knem', 'cuda', 'cuda_copy', 'cuda_ipc', 'gdr_copy']
{{- end }}
