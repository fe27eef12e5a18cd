# `make help` lists the targets. All of them run from a fresh clone: each installs what it needs.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --custom-compile-command "make lock"
TOPOLOGY ?= disaggregated
LOCAL_PORT ?= 8000
STEPS ?= 10000
LOCAL := PYTHONPATH=e2e/src $(PYTHON) -m epd_local
DEMO := PYTHONPATH=e2e/src $(BIN)/python -m epd_local.demo
LOAD_PROOF := PYTHONPATH=e2e/src $(BIN)/python -m epd_local.load_proof
TYPED := operator/src operator/tools worker_images/src e2e/src

.PHONY: help demo cluster down status test test-unit test-api test-e2e e2e-rollout lint format crds bench dashboards engine-flags scaling-report rollout-model simulator-fit simulator-report simulator-bench site check-generated audit lock venv clean

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

demo: $(VENV)/.installed ## From nothing to an answered image: TOPOLOGY=aggregated|colocated|disaggregated
	@$(DEMO) --topology $(TOPOLOGY) --local-port $(LOCAL_PORT)

cluster: $(VENV)/.installed ## Start the local cluster with the operator in it, without a deployment
	@$(DEMO) --cluster-only

down: ## End the local cluster and remove every trace of it
	@$(LOCAL) down

status: ## Show the local cluster
	@$(LOCAL) status

test: lint check-generated audit test-unit test-api test-e2e ## Everything that CI runs

test-unit: $(VENV)/.installed ## Tests without a cluster
	$(BIN)/pytest -q tests/unit

test-api: $(VENV)/.installed ## Tests against a real API server
	@$(LOCAL) packages --no-images >/dev/null
	@$(LOCAL) build controlplane helm helm4 gitops-check kustomize-controller promtool prometheus controller-gen >/dev/null
	$(BIN)/pytest -q tests/api
	$(BIN)/pytest -q tests/chart
	$(BIN)/pytest -q tests/admission
	$(BIN)/pytest -q tests/gitops
	$(BIN)/pytest -q tests/security
	$(BIN)/pytest -q tests/monitoring

test-e2e: $(VENV)/.installed ## User stories on the local cluster, with real workers
	@$(DEMO) --prepare-only
	$(BIN)/pytest -q e2e/tests

e2e-rollout: $(VENV)/.installed ## Changes and failures under load: docs/rollouts.md; SCENARIOS="image killed-pd", ARGS=--list
	@$(LOAD_PROOF) $(SCENARIOS) $(ARGS)

lint: $(VENV)/.installed ## Style, types, import rules and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(TYPED)
	$(BIN)/lint-imports .importlinter
	$(BIN)/codespell .
	@test ! -e operator/__init__.py || { echo "operator/__init__.py would shadow the standard library: delete it"; exit 1; }

format: $(VENV)/.installed ## Put the code in form
	$(BIN)/ruff check --fix-only -q .
	$(BIN)/ruff format -q .

crds: $(VENV)/.installed ## Regenerate crds/, the API reference, and the copies, rights and README of the chart
	$(BIN)/python -m crdgen
	@cp crds/nvidia.com_dynamoworkermetadatas.yaml charts/epd-operator/files/crds/
	@PYTHONPATH=tests:operator/src $(BIN)/python -m support.chart_readme

bench: $(VENV)/.installed ## Speed and cost of the operator at 1, 100 and 1000 objects
	@$(LOCAL) packages --no-images >/dev/null
	@$(LOCAL) build controlplane >/dev/null
	@PYTHONPATH=tests:operator/src:e2e/src $(BIN)/python -m benchmark.reconcile

dashboards: $(VENV)/.installed ## Write the Grafana dashboards into the chart
	PYTHONPATH=tests:operator/src $(BIN)/python -m monitoring.dashboards

engine-flags: $(VENV)/.installed ## List the flags of the pinned Dynamo and vLLM, which tests compare with those of the operator
	@PYTHONPATH=tests:e2e/src $(BIN)/python -m support.engine_flags

scaling-report: $(VENV)/.installed ## Compare scaling with a stock HPA in simulated hours: docs/scaling-report.md
	PYTHONPATH=tests:operator/src $(BIN)/python -m simulation.report

rollout-model: $(VENV)/.installed ## Edits, faults and accidents in any order on a model of the cluster: STEPS=10000
	@PYTHONPATH=tests:operator/src $(BIN)/python -m support.model.run --steps $(STEPS)

simulator-fit: $(VENV)/.installed ## Fit the constants of the simulator to published figures; takes 20 minutes
	PYTHONPATH=tests:operator/src $(BIN)/python -m published.fit

simulator-report: $(VENV)/.installed ## Compare the simulator with published figures: docs/simulator-calibration.md
	PYTHONPATH=tests:operator/src $(BIN)/python -m published.report

simulator-bench: $(VENV)/.installed ## How long 100 simulated hours take
	PYTHONPATH=tests:operator/src $(BIN)/python -m benchmark.simulation

site: $(VENV)/.installed ## The documentation as a site, in .site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file .mkdocs/mkdocs.yml
	@echo "open .site/index.html"

check-generated: crds
	@git diff --exit-code --stat -- crds charts/epd-operator/files charts/epd-operator/templates/_child_rights.tpl charts/epd-operator/README.md docs/api-reference.md || { echo "generated files were not current: commit them"; exit 1; }

audit: $(VENV)/audit/.installed ## Known vulnerabilities in all lock files; AUDIT=--strict fails where nobody could be asked
	@PYTHONPATH=tests $(BIN)/python -m support.dependency_audit --program $(VENV)/audit/bin/pip-audit $(AUDIT) $$(git ls-files '*.lock')

lock: $(VENV)/.installed ## Resolve all dependencies again and write the lock files
	$(COMPILE) operator/requirements.in -o operator/requirements.lock
	$(COMPILE) tests/requirements.in -o tests/requirements.lock
	$(COMPILE) e2e/aiperf.in -o e2e/aiperf.lock
	$(COMPILE) tests/uv.in -o tests/uv.lock
	$(COMPILE) tests/audit.in -o tests/audit.lock
	$(COMPILE) --override worker_images/overrides.txt --excludes worker_images/excludes.txt worker_images/requirements.in -o worker_images/requirements.lock

venv: $(VENV)/.installed

$(VENV)/.installed: tests/requirements.lock tests/uv.lock
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install -q --require-hashes -r tests/uv.lock
	$(BIN)/uv pip install -q --python $(BIN)/python --require-hashes -r tests/requirements.lock
	@printf '%s\n' $(addprefix $(CURDIR)/,$(TYPED)) > $$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/epd.pth
	@touch $@

$(VENV)/audit/.installed: $(VENV)/.installed tests/audit.lock
	$(PYTHON) -m venv --clear $(VENV)/audit
	$(BIN)/uv pip install -q --python $(VENV)/audit/bin/python --require-hashes -r tests/audit.lock
	@touch $@

clean: ## Remove the tools of this clone; caches outside it stay
	rm -rf $(VENV) .site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
