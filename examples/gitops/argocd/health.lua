-- Health of an EPDDeployment in Argo CD. argocd-cm.yaml contains a copy of this file; docs/gitops.md explains it.
-- Scripts in Argo CD have no string library and no math library.

-- Reasons of Ready that are retried permanently, mostly without success.
local needs_a_person = {
  ContainerConfigInvalid = true,
  CrashLooping = true,
  ImagePullFailed = true,
  PodsRefused = true,
  ProgressDeadlineExceeded = true,
  RevisionReturned = true,
  VerificationFailed = true,
  VolumeNotReady = true,
  WrongAnswers = true,
}

-- true: an object is Healthy as soon as requests are answered, also during a rollout or while a pod finds no node.
local available_is_enough = false

local function table_or_empty(value)
  if type(value) == "table" then return value end
  return {}
end

local function describe(condition)
  local reason, message = condition.reason, condition.message
  if type(reason) ~= "string" then reason = "no reason" end
  if type(message) ~= "string" then message = "no message" end
  return reason .. ": " .. message
end

local metadata = table_or_empty(obj.metadata)
local status = table_or_empty(obj.status)

if metadata.deletionTimestamp ~= nil then
  return { status = "Progressing", message = "it is being deleted" }
end
if type(status.observedGeneration) ~= "number" or status.observedGeneration ~= metadata.generation then
  return { status = "Progressing", message = "the operator has not seen the current spec yet" }
end

local conditions = {}
for _, condition in ipairs(table_or_empty(status.conditions)) do
  if type(condition) == "table" and type(condition.type) == "string" then
    conditions[condition.type] = condition
  end
end
local ready = table_or_empty(conditions.Ready)

if table_or_empty(conditions.Stalled).status == "True" then
  return { status = "Degraded", message = describe(conditions.Stalled) }
end
if ready.status == "False" and needs_a_person[ready.reason] then
  return { status = "Degraded", message = describe(ready) }
end
local available = table_or_empty(conditions.Available).status == "True"
if ready.status == "True" and table_or_empty(conditions.Reconciling).status ~= "True" then
  return { status = "Healthy", message = describe(ready) }
end
if available and available_is_enough then
  return { status = "Healthy", message = describe(ready) }
end
if ready.status == nil then
  return { status = "Progressing", message = "the operator has not reported a status yet" }
end
-- A rollout stays Progressing although requests are answered, so that the next sync wave waits until it is complete.
local answered = ""
if available then answered = " (requests are answered)" end
return { status = "Progressing", message = describe(ready) .. answered }
