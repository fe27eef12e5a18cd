{{- /*
What is unwise, in docs/admission.md by the same names: `fine` holds where there is nothing to say, and `message` is CEL
for the field's path and the way out. The API server cuts warnings to 256 characters where they are many.
*/ -}}
{{- define "epd.admission.warnings" -}}
- name: SameGPUProduct
  fine: variables.encoderGPU.size() == 0 || variables.encoderGPU != variables.pdGPU
  message: >-
    'spec.encoder.pool, spec.pd.pool: both have ' + variables.pdGPU[0] + ', and on GPUs of one kind Disaggregated is
    never better than CoLocated: set topology to CoLocated, or give the encoders a pool of cheaper GPUs'
- name: LongAnswersCoLocated
  fine: >-
    object.spec.topology != 'CoLocated'
    || !variables.decoderArgs.exists(a, a.split('=')[0].replace('_', '-') in
    ['--reasoning-parser', '--dyn-reasoning-parser'])
    || variables.decoderArgs.exists(a, a.matches('"max_new_tokens" *: *1?[0-9]{1,3}[^0-9]'))
  message: >-
    'spec.topology: a reasoning parser means long answers, and CoLocated is slower than Aggregated from about 2000
    tokens on: measure Aggregated, too, or cap answers by max_new_tokens in --override-generation-config'
- name: SingleReplica
  fine: variables.onePod.size() == 0
  message: >-
    variables.onePod.join(', ') + ': one pod, so requests fail while its node is drained, and a disruption budget
    could do no more than block the drain: set 2 or more'
- name: NoMemoryLimit
  fine: variables.withoutLimit.size() == 0
  message: >-
    variables.withoutLimit.join(', ') + ': not set, so a process that grows takes the memory of the whole node: set what
    the process needs, plus sharedMemory and embeddingCache'
- name: LowMemoryLimit
  fine: variables.lowLimit.size() == 0
  message: >-
    variables.lowLimit.join(', ') + ': no more than sharedMemory, embeddingCache and the ring of NixlWrite (8Gi)
    together, which count against it, so the container is killed when they fill: raise it'
- name: MutableImage
  fine: variables.mutableImages.size() == 0
  message: >-
    variables.mutableImages.join(', ') + ': without a version, so pods that start at different times may run different
    ones, which must not be mixed: add a tag other than latest, or a digest'
- name: ForeignImage
  fine: variables.foreignImages.size() == 0
  message: >-
    variables.foreignImages[0].path + ': ' + variables.foreignImages[0].image + ' is for another architecture than gpu.architecture of
    pool ' + variables.foreignImages[0].pool + ': name an image for both, or set podTemplate.image of the stage'
- name: ModelDownload
  fine: >-
    has(object.spec.model.storage) || object.spec.model.name.matches('^[./]') || variables.hasHuggingFaceFolder
    || object.spec.model.name.matches('(^|[-_/])([0-3]([.][0-9]+)?[Bb]|[0-9]+[Mm])([-_.]|$)')
  message: >-
    'spec.model.storage: not set, so every pod downloads ' + object.spec.model.name + ' at every start: put it on a
    volume, and name its folder there in spec.model.name'
- name: UnusedStorage
  fine: >-
    !has(object.spec.model.storage) || variables.hasHuggingFaceFolder
    || object.spec.model.name == object.spec.model.storage.mountPath
    || object.spec.model.name.startsWith(object.spec.model.storage.mountPath
    + (object.spec.model.storage.mountPath.endsWith('/') ? '' : '/'))
  message: >-
    'spec.model.name: ' + object.spec.model.name + ' is not below ' + object.spec.model.storage.mountPath + ', so the
    volume of spec.model.storage is not read: name the folder on it, or set HF_HOME in spec.runtime.env'
- name: PlainSecret
  fine: variables.secretHolders.size() == 0
  message: >-
    variables.secretHolders.join(', ') + ': a credential in plain text, for everybody who may read this object: put it
    into a Secret (spec.model.tokenSecret, or valueFrom.secretKeyRef)'
- name: EmbeddingsByTCP
  fine: >-
    object.spec.topology != 'Disaggregated' || object.spec.encoder.pool == object.spec.pd.pool
    || has(object.spec.transfer.rdmaResource) || !variables.transports.all(t, t == 'tcp' || t in {{ include "epd.admission.localTransports" . }})
  message: >-
    'spec.transfer.ucx.transports: tcp alone copies every embedding by the CPUs of both nodes: if the pools have RDMA,
    add rc and spec.transfer.rdmaResource; if not, measure Aggregated, too'
- name: RDMAWithoutDevice
  fine: >-
    object.spec.topology != 'Disaggregated' || has(object.spec.transfer.rdmaResource)
    || variables.rdmaTransports.size() == 0 || variables.transports.exists(t, t in ['tcp', 'all'])
  message: >-
    'spec.transfer.rdmaResource: not set, but ' + variables.rdmaTransports[0] + ' is the only way between pods and needs
    a device: name the resource of the RDMA device plugin, or add tcp to spec.transfer.ucx.transports'
- name: UnusedRDMA
  fine: >-
    !has(object.spec.transfer.rdmaResource)
    || (object.spec.topology == 'Disaggregated' && variables.rdmaTransports.size() > 0)
  message: >-
    'spec.transfer.rdmaResource: ' + (object.spec.topology == 'Disaggregated'
    ? 'no transport uses the devices: add rc to spec.transfer.ucx.transports, or remove this field'
    : 'in topology ' + object.spec.topology + ' no embedding leaves its pod, so the devices are idle: remove this field')
- name: FrontendsWithoutTCP
  fine: >-
    object.spec.frontend.mediaDecoding != 'Frontend' || variables.transports.exists(t, t in ['tcp', 'all'])
  message: >-
    'spec.transfer.ucx.transports: mediaDecoding Frontend sends pixels from frontends, which have no RDMA device: add
    tcp; pods with RDMA devices prefer rc all the same'
- name: NothingToScale
  fine: variables.notScaling.size() == 0
  message: >-
    variables.notScaling.join(', ') + ': minReplicas equals maxReplicas, so the stage never scales: raise maxReplicas,
    or remove autoscaling and set replicas'
- name: NobodyScales
  fine: variables.isScaled || variables.scalingSettings.size() == 0
  message: >-
    variables.scalingSettings.join(', ') + ': without effect, since no stage with GPUs has autoscaling in mode Internal:
    add it to a stage, or remove this'
- name: TargetAboveCapacity
  fine: variables.highTargets.size() == 0
  message: >-
    variables.highTargets.join(', ') + ': targetPerReplica of Requests is above --max-num-seqs, so every replica always
    has a queue: choose a target below it'
- name: BandOutOfReach
  fine: >-
    !variables.isScaled || variables.encoderRange.size() == 0
    || (variables.encoderRange[1] * 100 >= variables.pdRange[0] * object.spec.scaling.encodersPerPd.minPercent
    && variables.encoderRange[0] * 100 <= variables.pdRange[1] * object.spec.scaling.encodersPerPd.maxPercent)
  message: >-
    'spec.scaling.encodersPerPd: ' + variables.encoderRange.map(n, string(n)).join(' to ') + ' encoders and '
    + variables.pdRange.map(n, string(n)).join(' to ') + ' PD workers never fit the band: widen it, or change
    minReplicas or maxReplicas'
{{- if not .Values.prometheusUrl }}
- name: NoPrometheus
  fine: object.spec.scaling.metricsSource != 'Prometheus' || !variables.isScaled
  message: >-
    'spec.scaling.metricsSource: the operator has no Prometheus server, so stages stay as they are: ask for the chart
    value prometheusUrl, or choose Pods'
{{- end }}
- name: ShortDrain
  fine: >-
    object.spec.drain.timeoutSeconds >= 30 && (!has(object.spec.slo) || !has(object.spec.slo.timeToFirstTokenMilliseconds)
    || object.spec.drain.timeoutSeconds * 1000 > object.spec.slo.timeToFirstTokenMilliseconds)
  message: >-
    'spec.drain.timeoutSeconds: ' + string(object.spec.drain.timeoutSeconds) + ' s are less than a long answer takes, so
    answers are cut off whenever a pod leaves: set what your longest answer takes'
- name: UnequalFlags
  fine: variables.unequalFlags.size() == 0
  message: >-
    (has(object.spec.group) ? 'spec.group.encoder.args, spec.group.pd.args: ' : 'spec.encoder.args, spec.pd.args: ')
    + variables.unequalFlags.join(', ') + ' differs, but both must cut images alike: move it to spec.runtime.args'
- name: TopologyChange
  fine: request.operation == 'CREATE' || object.spec.topology == oldObject.spec.topology
  message: >-
    'spec.topology: the stages are replaced at once, so requests fail until the new ones have loaded the model: to avoid
    that, create a second object and move clients over'
{{- end }}
