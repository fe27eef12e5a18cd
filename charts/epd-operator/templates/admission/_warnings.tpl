{{- /*
Warnings about configurations that work but are not recommended. docs/admission.md explains each under the same name.
`fine` is CEL: true if there is nothing to warn about. `message` is CEL for the path of the field, the problem and the
fix. If there are many warnings, the API server cuts each to 256 characters: so the path comes first.
*/ -}}
{{- define "epd.admission.warnings" -}}
- name: SameGPUProduct
  fine: variables.encoderGPU.size() == 0 || variables.encoderGPU != variables.pdGPU
  message: >-
    'spec.encoder.pool, spec.pd.pool: both use ' + variables.pdGPU[0] + '. On the same kind of GPU, Disaggregated has no
    advantage over CoLocated. Set topology to CoLocated, or use a pool of cheaper GPUs for the encoders.'
- name: LongAnswersCoLocated
  fine: >-
    object.spec.topology != 'CoLocated'
    || !variables.decoderArgs.exists(a, a.split('=')[0].replace('_', '-') in
    ['--reasoning-parser', '--dyn-reasoning-parser'])
    || variables.decoderArgs.exists(a, a.matches('"max_new_tokens" *: *1?[0-9]{1,3}[^0-9]'))
  message: >-
    'spec.topology: a reasoning parser is set, so answers are probably long. From about 2000 output tokens, CoLocated is
    slower than Aggregated. Measure both, or limit the answers with max_new_tokens in --override-generation-config.'
- name: SingleReplica
  fine: variables.onePod.size() == 0
  message: >-
    variables.onePod.join(', ') + ': with a single pod, requests fail while its node is drained. A PodDisruptionBudget
    would only block the drain. Set 2 or more.'
- name: NoMemoryLimit
  fine: variables.withoutLimit.size() == 0
  message: >-
    variables.withoutLimit.join(', ') + ': not set, so the pod can use all memory of the node. Set what the process
    needs, plus sharedMemory and embeddingCache.'
- name: LowMemoryLimit
  fine: variables.lowLimit.size() == 0
  message: >-
    variables.lowLimit.join(', ') + ': too low. sharedMemory, embeddingCache and the ring buffer of NixlWrite (8Gi) count
    against the limit, and the container is killed when they fill up. Raise the limit.'
- name: MemoryInBytes
  fine: variables.inBytes.size() == 0
  message: >-
    variables.inBytes.map(found, found[0].path).join(', ') + ': ' + variables.inBytes[0][0].amount + ' is less than 1Mi. A
    number without a unit is in bytes, and m means 1/1000 byte. Set for example 64Gi.'
- name: MutableImage
  fine: variables.mutableImages.size() == 0
  message: >-
    variables.mutableImages.join(', ') + ': no fixed version, so pods that start at different times can run different
    versions. They must not be mixed. Use a tag other than latest, or a digest.'
- name: ForeignImage
  fine: variables.foreignImages.size() == 0
  message: >-
    variables.foreignImages[0].path + ': image ' + variables.foreignImages[0].image + ' is for another CPU architecture
    than the nodes of pool ' + variables.foreignImages[0].pool + '. Use a multi-architecture image, or set
    podTemplate.image of the stage.'
- name: ModelDownload
  fine: >-
    has(object.spec.model.storage) || object.spec.model.name.matches('^[./]') || variables.hasHuggingFaceFolder
    || object.spec.model.name.matches('(^|[-_/])([0-3]([.][0-9]+)?[Bb]|[0-9]+[Mm])([-_.]|$)')
  message: >-
    'spec.model.storage: not set, so every pod downloads ' + object.spec.model.name + ' at every start. Put the model on
    a volume, set spec.model.storage, and set spec.model.name to the path of the model on the volume.'
- name: UnusedStorage
  fine: >-
    !has(object.spec.model.storage) || variables.hasHuggingFaceFolder
    || (object.spec.model.name + '/').replace('/./', '/').replace('//', '/').startsWith(
    (object.spec.model.storage.mountPath + '/').replace('//', '/'))
  message: >-
    'spec.model.name: ' + object.spec.model.name + ' is not below ' + object.spec.model.storage.mountPath + ', so the
    volume of spec.model.storage is not used. Set the path of the model on the volume, or set HF_HUB_CACHE in
    spec.runtime.env if the volume holds a Hugging Face cache.'
- name: PlainSecret
  fine: variables.secretHolders.size() == 0
  message: >-
    variables.secretHolders.join(', ') + ': a credential in plain text, visible to everyone who can read this object. Put
    it into a Secret, and refer to it with spec.model.tokenSecret or valueFrom.secretKeyRef.'
- name: ValueInFlag
  fine: variables.joinedFlags.size() == 0
  message: >-
    variables.joinedFlags.map(h, h.path).join(', ') + ': ' + variables.joinedFlags[0].flags[0] + ' and its value are one
    item, so the process reads both as the name of a flag, and ends. Use two items, or one item with = between them.'
- name: UnknownTransport
  fine: variables.unknownTransports.size() == 0
  message: >-
    'spec.transfer.ucx.transports: UCX has no transport ' + variables.unknownTransports.join(', ') + ', and ignores it. Use
    rc for RDMA, tcp, or another name that ucx_info -d shows.'
- name: EmbeddingsByTCP
  fine: >-
    variables.hasOtherNetworks
    || object.spec.topology != 'Disaggregated' || object.spec.encoder.pool == object.spec.pd.pool
    || has(object.spec.transfer.rdmaResource) || !variables.transports.all(t, t == 'tcp' || t in {{ include "epd.admission.localTransports" . }})
  message: >-
    'spec.transfer.ucx.transports: with tcp only, the CPUs of both nodes copy every embedding. If the pools have RDMA, add
    rc and set spec.transfer.rdmaResource. If not, compare with topology Aggregated.'
- name: RDMAWithoutDevice
  fine: >-
    variables.hasOtherNetworks
    || object.spec.topology != 'Disaggregated' || has(object.spec.transfer.rdmaResource)
    || variables.rdmaTransports.size() == 0 || variables.transports.exists(t, t in ['tcp', 'all'])
  message: >-
    'spec.transfer.rdmaResource: not set, but the only transport between pods, ' + variables.rdmaTransports[0] + ', needs
    an RDMA device. Set the resource name of the RDMA device plugin, or add tcp to spec.transfer.ucx.transports.'
- name: UnusedRDMA
  fine: >-
    variables.hasOtherNetworks
    || !has(object.spec.transfer.rdmaResource) || (variables.sendsBetweenPods && variables.rdmaTransports.size() > 0)
  message: >-
    'spec.transfer.rdmaResource: ' + (variables.sendsBetweenPods
    ? 'no transport uses the RDMA devices. Add rc to spec.transfer.ucx.transports, or remove this field.'
    : 'in topology ' + object.spec.topology + ', embeddings stay in their pod, so the RDMA devices are not used. Remove
    this field.')
- name: FrontendsWithoutTCP
  fine: >-
    variables.hasOtherNetworks
    || object.spec.frontend.mediaDecoding != 'Frontend' || variables.transports.exists(t, t in ['tcp', 'all'])
  message: >-
    'spec.transfer.ucx.transports: with mediaDecoding Frontend, frontends send pixels to other pods, but they have no RDMA
    device. Add tcp. Pods with RDMA devices still prefer rc.'
- name: NothingToScale
  fine: variables.notScaling.size() == 0
  message: >-
    variables.notScaling.join(', ') + ': minReplicas equals maxReplicas, or selectPolicy is Disabled for both directions, so
    the stage never scales. Raise maxReplicas, allow a direction, or remove autoscaling and set replicas.'
- name: ReplicasOutOfBounds
  fine: variables.outOfBounds.size() == 0
  message: >-
    variables.outOfBounds.join(', ') + ': not between minReplicas and maxReplicas of autoscaling, so the stage starts with
    the nearest of the two instead. Set a number between them, or remove replicas.'
- name: NobodyScales
  fine: variables.isScaled || variables.scalingSettings.size() == 0
  message: >-
    variables.scalingSettings.join(', ') + ': no effect, because no stage with GPUs has autoscaling in mode Internal. Add
    autoscaling to a stage, or remove this setting.'
- name: TargetAboveCapacity
  fine: variables.highTargets.size() == 0
  message: >-
    variables.highTargets.join(', ') + ': targetPerReplica of Requests is above --max-num-seqs, so requests queue in every
    replica even at the target. Set a target below --max-num-seqs.'
- name: BandOutOfReach
  fine: >-
    !variables.isScaled || variables.encoderRange.size() == 0
    || (variables.encoderRange[1] * 100 >= variables.pdRange[0] * object.spec.scaling.encodersPerPd.minPercent
    && variables.encoderRange[0] * 100 <= variables.pdRange[1] * object.spec.scaling.encodersPerPd.maxPercent)
  message: >-
    'spec.scaling.encodersPerPd: ' + variables.encoderRange.map(n, string(n)).join(' to ') + ' encoders and '
    + variables.pdRange.map(n, string(n)).join(' to ') + ' PD workers can never be within this band. Widen the band, or
    change minReplicas or maxReplicas.'
{{- if not .Values.prometheusUrl }}
- name: NoPrometheus
  fine: object.spec.scaling.metricsSource != 'Prometheus' || !variables.isScaled
  message: >-
    'spec.scaling.metricsSource: no Prometheus server is configured for the operator, so stages are not scaled. Ask your
    administrator to set the chart value prometheusUrl, or set metricsSource to Pods.'
{{- end }}
- name: ShortDrain
  fine: >-
    object.spec.drain.timeoutSeconds >= 30 && (!has(object.spec.slo) || !has(object.spec.slo.timeToFirstTokenMilliseconds)
    || object.spec.drain.timeoutSeconds * 1000 > object.spec.slo.timeToFirstTokenMilliseconds)
  message: >-
    'spec.drain.timeoutSeconds: answers that take longer than ' + string(object.spec.drain.timeoutSeconds) + ' s are cut
    off when their pod is stopped. Set at least the duration of your longest answer.'
- name: UnequalFlags
  fine: variables.unequalFlags.size() == 0
  message: >-
    (has(object.spec.group) ? 'spec.group.encoder.args, spec.group.pd.args: ' : 'spec.encoder.args, spec.pd.args: ')
    + variables.unequalFlags.join(', ') + ' differs between encoders and PD, but both must split images in the same way.
    Move it to spec.runtime.args.'
- name: TopologyChange
  fine: >-
    request.operation == 'CREATE' || object.spec.topology == oldObject.spec.topology
    || object.spec.rollout.strategy != 'Recreate'
  message: >-
    'spec.topology: with spec.rollout.strategy Recreate, this change removes all pods before new ones start, so requests
    fail until these have loaded the model. To avoid this, set the strategy to BlueGreen, which needs the GPUs of both, or to Rolling.'
{{- end }}
