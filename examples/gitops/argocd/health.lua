-- Health of an EPDDeployment in Argo CD. argocd-cm.yaml holds a copy of it; docs/gitops.md explains it.
-- Argo CD gives scripts no string and no math library.

-- Reasons of Ready that Kubernetes retries for ever, mostly in vain.
local needs_a_person = {
  ContainerConfigInvalid = true,
  CrashLooping = true,
  ImagePullFailed = true,
  PodsRefused = true,
}

local function table_or_empty(value)
  if type(value) == "table" then return value end
  return {}
end

local function says(condition)
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
  return { status = "Degraded", message = says(conditions.Stalled) }
end
if ready.status == "False" and needs_a_person[ready.reason] then
  return { status = "Degraded", message = says(ready) }
end
if ready.status == "True" and table_or_empty(conditions.Reconciling).status ~= "True" then
  return { status = "Healthy", message = says(ready) }
end
if ready.status == nil then
  return { status = "Progressing", message = "the operator has not told its state yet" }
end
-- A roll-out is not over while requests are answered, so that the next sync wave waits for it.
local answered = ""
if table_or_empty(conditions.Available).status == "True" then answered = " (requests are answered)" end
return { status = "Progressing", message = says(ready) .. answered }
