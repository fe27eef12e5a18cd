package main

import (
	"fmt"

	helm "github.com/fluxcd/helm-controller/api/v2"
	kustomize "github.com/fluxcd/kustomize-controller/api/v1"
	source "github.com/fluxcd/source-controller/api/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

var fluxKinds = map[schema.GroupVersionKind]func() any{
	kustomize.GroupVersion.WithKind("Kustomization"): func() any { return &kustomize.Kustomization{} },
	helm.GroupVersion.WithKind("HelmRelease"):        func() any { return &helm.HelmRelease{} },
	source.GroupVersion.WithKind("GitRepository"):    func() any { return &source.GitRepository{} },
	source.GroupVersion.WithKind("OCIRepository"):    func() any { return &source.OCIRepository{} },
	source.GroupVersion.WithKind("HelmRepository"):   func() any { return &source.HelmRepository{} },
}

// decode says whether an object fits Flux's own types, without fields that they do not have.
func decode(raw []byte) verdict {
	u, err := object(raw)
	if err != nil {
		return verdict{Error: err.Error()}
	}
	kind := u.GroupVersionKind()
	made, ok := fluxKinds[kind]
	if !ok {
		return verdict{Error: fmt.Sprintf("%s is no kind of Flux", kind)}
	}
	if err := yaml.UnmarshalStrict(raw, made()); err != nil {
		return verdict{Error: err.Error()}
	}
	return verdict{Status: kind.Kind}
}
