{{- /*
The stages and pod templates that self has, with their paths. dyn() allows values of different types in one list.
*/ -}}
{{- define "epd.admission.parts" -}}
- name: stages
  expression: >-
    {{- range $number, $stage := list "frontend" "worker" "group" "encoder" "pd" }}
    {{ if $number }}+ {{ end }}(has(self.spec.{{ $stage }})
    ? [{'name': dyn('{{ $stage }}'), 'spec': dyn(self.spec.{{ $stage }})}] : [])
    {{- end }}
- name: templates
  expression: >-
    (has(self.spec.podTemplate) ? [{'path': dyn('spec.podTemplate'), 'spec': dyn(self.spec.podTemplate)}] : [])
    {{- range list "frontend" "worker" "group" "encoder" "pd" }}
    + (has(self.spec.{{ . }}) && has(self.spec.{{ . }}.podTemplate)
    ? [{'path': dyn('spec.{{ . }}.podTemplate'), 'spec': dyn(self.spec.{{ . }}.podTemplate)}] : [])
    {{- end }}
{{- end }}

{{- /*
Values that warnings use. The API server evaluates each of them on first use.
*/ -}}
{{- define "epd.admission.variables" -}}
- name: accepted
  expression: >-
    has(object.metadata.annotations) && 'epd.dev/accepted-warnings' in object.metadata.annotations
    ? object.metadata.annotations['epd.dev/accepted-warnings'].split(',').map(name, name.trim()) : []
{{ include "epd.admission.parts" . | replace "self." "object." }}
- name: gpuStages
  expression: variables.stages.filter(s, s.name != 'frontend')
- name: decoders
  expression: variables.stages.filter(s, s.name in ['worker', 'group', 'pd'])
- name: holders   # objects with env and args
  expression: >-
    [{'path': dyn('spec.runtime'), 'spec': dyn(object.spec.runtime)}]
    + variables.stages.map(s, {'path': dyn('spec.' + s.name), 'spec': s.spec})
    {{- range list "encoder" "pd" }}
    + (has(object.spec.group) ? [{'path': dyn('spec.group.{{ . }}'), 'spec': dyn(object.spec.group.{{ . }})}] : [])
    {{- end }}
- name: images
  expression: >-
    [has(object.spec.podTemplate) && has(object.spec.podTemplate.image)
    ? {'path': dyn('spec.podTemplate.image'), 'image': dyn(object.spec.podTemplate.image)}
    : {'path': dyn('spec.runtime.image'), 'image': dyn(object.spec.runtime.image)}]
    + variables.stages.filter(s, has(s.spec.podTemplate) && has(s.spec.podTemplate.image))
    .map(s, {'path': dyn('spec.' + s.name + '.podTemplate.image'), 'image': s.spec.podTemplate.image})
- name: transports
  expression: object.spec.transfer.ucx.transports
- name: rdmaTransports
  expression: variables.transports.filter(t, t.matches('^(rc|ud|dc|ib|srd|gga|all)'))
- name: hasOtherNetworks   # networks of single pools or stages, which spec.transfer does not describe
  expression: >-
    object.spec.pools.exists(p, has(p.network)) || variables.stages.exists(s, has(s.spec.network))
- name: sendsBetweenPods   # whether embeddings leave their pod
  expression: >-
    object.spec.topology == 'Disaggregated' || (object.spec.topology == 'CoLocated' && has(object.spec.group)
    && has(object.spec.group.encoder) && has(object.spec.group.encoder.scope)
    && object.spec.group.encoder.scope == 'Deployment')
- name: unknownTransports
  expression: >-
    variables.transports.filter(t, !(t in {{ include "epd.admission.networkTransports" . | replace "\n" " " }})
    && !(t in {{ include "epd.admission.localTransports" . }}))
- name: hasHuggingFaceFolder
  expression: >-
    variables.holders.exists(h, has(h.spec.env)
    && h.spec.env.exists(e, e.name in ['HF_HOME', 'HF_HUB_CACHE', 'HUGGINGFACE_HUB_CACHE', 'TRANSFORMERS_CACHE']))
    || variables.templates.exists(t, has(t.spec.volumeMounts)
    && t.spec.volumeMounts.exists(m, m.mountPath.startsWith('/var/cache/worker/')))
{{- range list "encoder" "pd" }}
- name: {{ . }}GPU   # name of the resource and of the product, or of the pool if there is no product
  expression: >-
    object.spec.pools.filter(p, has(object.spec.{{ . }}) && p.name == object.spec.{{ . }}.pool)
    .map(p, p.gpu.resourceName + ' ' + (has(p.gpu.product) ? p.gpu.product
    : has(p.nodeSelector) && 'nvidia.com/gpu.product' in p.nodeSelector ? p.nodeSelector['nvidia.com/gpu.product']
    : has(p.gpu.products) ? p.gpu.products.join(',') : has(p.preset) ? p.preset : 'of pool ' + p.name))
- name: {{ . }}Args   # only of this kind of process
  expression: >-
    (has(object.spec.{{ . }}) && has(object.spec.{{ . }}.args) ? object.spec.{{ . }}.args : [])
    + (has(object.spec.group) && has(object.spec.group.{{ . }}.args) ? object.spec.group.{{ . }}.args : [])
- name: {{ . }}Range   # minimum and maximum number of pods
  expression: >-
    !has(object.spec.{{ . }}) ? [] : has(object.spec.{{ . }}.autoscaling)
    ? [object.spec.{{ . }}.autoscaling.minReplicas, object.spec.{{ . }}.autoscaling.maxReplicas]
    : [object.spec.{{ . }}.replicas, object.spec.{{ . }}.replicas]
{{- end }}
- name: decoderArgs   # of processes that decode
  expression: >-
    (has(object.spec.runtime.args) ? object.spec.runtime.args : [])
    + (has(object.spec.worker) && has(object.spec.worker.args) ? object.spec.worker.args : [])
    + (has(object.spec.group) && has(object.spec.group.args) ? object.spec.group.args : [])
    + variables.pdArgs
- name: maxNumSeqs
  expression: >-
    {{ include "epd.admission.flag" (dict "args" "variables.decoderArgs" "flag" "'--max-num-seqs'") }}
    .filter(n, n.matches('^[0-9]{1,9}$')).map(n, int(n))
- name: isScaled
  expression: >-
    variables.gpuStages.exists(s, has(s.spec.autoscaling) && s.spec.autoscaling.mode == 'Internal')
- name: onePod
  expression: >-
    variables.stages.filter(s, has(s.spec.autoscaling)
    ? s.spec.autoscaling.mode == 'Internal' && s.spec.autoscaling.minReplicas == 1 : s.spec.replicas == 1)
    .map(s, 'spec.' + s.name + (has(s.spec.autoscaling) ? '.autoscaling.minReplicas' : '.replicas'))
- name: withLimit
  expression: >-
    variables.gpuStages.filter(s, has(s.spec.resources) && has(s.spec.resources.limits)
    && 'memory' in s.spec.resources.limits)
- name: withoutLimit
  expression: >-
    variables.gpuStages.filter(s, !variables.withLimit.exists(l, l.name == s.name))
    .map(s, 'spec.' + s.name + '.resources.limits.memory')
- name: lowLimit
  expression: >-
    variables.withLimit.filter(s, quantity(s.spec.resources.limits['memory']).compareTo(
    quantity(s.spec.sharedMemory).add(quantity(has(s.spec.embeddingCache) ? s.spec.embeddingCache : '0'))
    .add(quantity(object.spec.transfer.mode == 'NixlWrite' && s.name in ['group', 'pd'] ? '8Gi' : '0'))) <= 0)
    .map(s, 'spec.' + s.name + '.resources.limits.memory')
- name: mutableImages
  expression: >-
    variables.images.filter(i, i.image.matches('(^|/)[^/:@]+(:latest)?$')).map(i, i.path)
- name: foreignImages
  expression: >-
    variables.gpuStages.map(s, has(s.spec.podTemplate) && has(s.spec.podTemplate.image)
    ? {'path': dyn('spec.' + s.name + '.podTemplate.image'), 'image': s.spec.podTemplate.image, 'pool': s.spec.pool}
    : {'path': variables.images[0].path, 'image': variables.images[0].image, 'pool': s.spec.pool})
    .filter(i, object.spec.pools.exists(p, p.name == i.pool && (has(p.gpu.architecture) ? p.gpu.architecture
    : has(p.nodeSelector) && 'kubernetes.io/arch' in p.nodeSelector ? p.nodeSelector['kubernetes.io/arch']
    : has(p.preset) ? (p.preset in ['GB200', 'GB300'] ? 'arm64' : 'amd64') : '')
    == (i.image.matches('[-_.:/](arm64|aarch64)(v8)?([-_.:/@]|$)')
    ? (i.image.matches('[-_.:/](amd64|x86[-_]64)([-_.:/@]|$)') ? 'none' : 'amd64')
    : (i.image.matches('[-_.:/](amd64|x86[-_]64)([-_.:/@]|$)') ? 'arm64' : 'none'))))
- name: secretHolders
  expression: >-
    variables.holders.filter(h, has(h.spec.env) && h.spec.env.exists(e, has(e.value) && e.value.size() >= 8
    && e.name.matches('(?i)(^|_)(token|password|passwd|secret|api_key|secret_key|access_key)$')
    && !e.value.matches('^[0-9]+$'))).map(h, h.path + '.env')
    + variables.holders.filter(h, has(h.spec.args) && h.spec.args.exists(a,
    a.split('=')[0].split(' ')[0].replace('_', '-') in ['--hf-token', '--api-key'])).map(h, h.path + '.args')
- name: joinedFlags   # a flag and its value in one item
  expression: >-
    variables.holders.filter(h, has(h.spec.args)).map(h, {'path': dyn(h.path + '.args'),
    'flags': dyn(h.spec.args.filter(a, a.matches('^--?[A-Za-z][^ =]* ')).map(a, a.split(' ')[0]))})
    .filter(h, h.flags.size() > 0)
- name: inBytes
  expression: >-
    (variables.stages.filter(s, has(s.spec.resources) && has(s.spec.resources.requests))
    .map(s, {'path': dyn('spec.' + s.name + '.resources.requests.'), 'amounts': s.spec.resources.requests})
    + variables.stages.filter(s, has(s.spec.resources) && has(s.spec.resources.limits))
    .map(s, {'path': dyn('spec.' + s.name + '.resources.limits.'), 'amounts': s.spec.resources.limits}))
    .map(p, ['memory', 'ephemeral-storage'].filter(r, r in p.amounts && quantity(p.amounts[r]).isGreaterThan(quantity('0'))
    && quantity(p.amounts[r]).isLessThan(quantity('1Mi')))
    .map(r, {'path': dyn(p.path + r), 'amount': p.amounts[r]})).filter(found, found.size() > 0)
- name: outOfBounds   # 1 is the default
  expression: >-
    variables.stages.filter(s, has(s.spec.autoscaling) && (s.spec.replicas > s.spec.autoscaling.maxReplicas
    || (s.spec.replicas < s.spec.autoscaling.minReplicas && s.spec.replicas != 1)))
    .map(s, 'spec.' + s.name + '.replicas')
- name: notScaling
  expression: >-
    variables.stages.filter(s, has(s.spec.autoscaling)
    && (s.spec.autoscaling.minReplicas == s.spec.autoscaling.maxReplicas || (s.spec.autoscaling.mode == 'Internal'
    && s.spec.autoscaling.behavior.scaleUp.selectPolicy == 'Disabled'
    && s.spec.autoscaling.behavior.scaleDown.selectPolicy == 'Disabled'))).map(s, 'spec.' + s.name + '.autoscaling')
- name: scalingSettings   # have an effect only with autoscaling
  expression: >-
    (has(object.spec.slo) ? ['spec.slo'] : [])
    + (has(object.spec.scaling.gpuBudget) ? ['spec.scaling.gpuBudget'] : [])
    + (object.spec.scaling.encodersPerPd.minPercent != 1 || object.spec.scaling.encodersPerPd.maxPercent != 100000
    ? ['spec.scaling.encodersPerPd'] : [])
- name: highTargets
  expression: >-
    variables.decoders.filter(s, variables.maxNumSeqs.size() > 0 && has(s.spec.autoscaling)
    && has(s.spec.autoscaling.metrics) && s.spec.autoscaling.metrics.exists(m, m.type == 'Requests'
    && variables.maxNumSeqs.all(n, m.targetPerReplica > n))).map(s, 'spec.' + s.name + '.autoscaling.metrics')
- name: unequalFlags
  expression: >-
    ['--mm-processor-kwargs', '--hf-overrides', '--revision'].filter(f,
    {{ include "epd.admission.flag" (dict "args" "variables.encoderArgs" "flag" "f") }}
    != {{ include "epd.admission.flag" (dict "args" "variables.pdArgs" "flag" "f") }})
{{- end }}

{{- /* The values of a flag in a list of arguments, --flag=value before --flag value. Takes args and flag, as CEL. */ -}}
{{- define "epd.admission.flag" -}}
({{ .args }}.filter(a, a.startsWith({{ .flag }} + '=')).map(a, a.substring({{ .flag }}.size() + 1))
    + ({{ .flag }} in {{ .args }} && {{ .args }}.lastIndexOf({{ .flag }}) + 1 < {{ .args }}.size()
    ? [{{ .args }}[{{ .args }}.lastIndexOf({{ .flag }}) + 1]] : []))
{{- end }}
