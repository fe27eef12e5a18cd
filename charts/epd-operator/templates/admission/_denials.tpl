{{- /*
What is wrong only together, in docs/admission.md by the same names: `wrong` is CEL for the paths of wrong fields of self,
which is the object as it shall be or as it was. Paths that were wrong before are let pass.
*/ -}}
{{- define "epd.admission.denials" -}}
- name: FrontendsCutOff
  wrong: >-
    self.spec.frontend.mediaDecoding == 'Frontend'
    && self.spec.transfer.ucx.transports.all(t, t in {{ include "epd.admission.localTransports" . }})
    ? ['spec.transfer.ucx.transports'] : []
  message: >-
    none of these transports leaves a pod, and mediaDecoding Frontend sends pixels from frontends to other pods: add tcp,
    or set spec.frontend.mediaDecoding to Worker
- name: BudgetTooSmall
  wrong: >-
    has(self.spec.scaling.gpuBudget) && self.spec.scaling.gpuBudget < self.stages.filter(s, s.name != 'frontend').map(s,
    int(has(s.spec.autoscaling) ? s.spec.autoscaling.minReplicas : s.spec.replicas)
    * int(has(s.spec.gpusPerReplica) ? s.spec.gpusPerReplica : 1)).sum() ? ['spec.scaling.gpuBudget'] : []
  message: >-
    fewer GPUs than all stages have at their fewest replicas, so it cannot be kept: raise it, or lower minReplicas
    (replicas, where a stage has no autoscaling)
- name: NoKVCache
  wrong: >-
    self.stages.filter(s, s.name in ['frontend', 'encoder'] && has(s.spec.autoscaling) && has(s.spec.autoscaling.metrics)
    && s.spec.autoscaling.metrics.exists(m, m.type == 'KVCacheUsage')).map(s, 'spec.' + s.name + '.autoscaling.metrics')
  message: >-
    KVCacheUsage is always missing here, since only pods that decode have a KV cache, and the stage would never shrink:
    use Requests
- name: CacheAboveLimit
  wrong: >-
    self.stages.filter(s, has(s.spec.embeddingCache) && has(s.spec.resources) && has(s.spec.resources.limits)
    && 'memory' in s.spec.resources.limits
    && quantity(s.spec.embeddingCache).compareTo(quantity(s.spec.resources.limits['memory'])) >= 0)
    .map(s, 'spec.' + s.name + '.embeddingCache')
  message: >-
    not below resources.limits.memory, so the container would be killed before the cache is full: lower the cache, or
    raise the limit
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
    Kubernetes takes hugepages only with equal request and limit, and beside cpu or memory: give both
- name: TwoVolumeSources
  wrong: >-
    self.templates.filter(t, has(t.spec.volumes) && t.spec.volumes.exists(v,
    v.filter(k, k != 'name' && v[k] != null).size() > 1)).map(t, t.path + '.volumes')
  message: >-
    a volume has more than one source, and Kubernetes takes one: remove the others
{{- end }}

{{- /* UCX transports that end at the pod's border, as in the CRD. */ -}}
{{- define "epd.admission.localTransports" -}}
['self', 'sm', 'shm', 'posix', 'sysv', 'mm', 'xpmem', 'cma', 'knem', 'cuda', 'cuda_copy', 'cuda_ipc', 'gdr_copy']
{{- end }}
