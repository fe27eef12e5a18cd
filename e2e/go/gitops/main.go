// Command gitops-check says what GitOps tools would make of objects: Argo CD by a Lua script, Flux by CEL expressions,
// and everything that builds on kstatus.
//
//	gitops-check health --lua health.lua --cel exprs.json
//	gitops-check decode
//
// Both read a stream of JSON objects and answer each with one line of JSON, so one process serves many objects.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gitops-check:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("usage: gitops-check health|decode")
	}
	switch args[0] {
	case "health":
		flags := flag.NewFlagSet("health", flag.ContinueOnError)
		script := flags.String("lua", "", "file with the health check of Argo CD")
		expressions := flags.String("cel", "", "file with one item of healthCheckExprs of Flux, as JSON or YAML")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		checks, err := newChecks(*script, *expressions)
		if err != nil {
			return err
		}
		return answerAll(in, out, func(raw []byte) (any, error) { return checks.health(raw) })
	case "decode":
		return answerAll(in, out, func(raw []byte) (any, error) { return decode(raw), nil })
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// answerAll passes each JSON value of a stream to answer and writes what it returns, one line each.
func answerAll(in io.Reader, out io.Writer, answer func([]byte) (any, error)) error {
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		result, err := answer(raw)
		if err != nil {
			return err
		}
		if err := encoder.Encode(result); err != nil {
			return err
		}
	}
}

// object decodes as the clients of Kubernetes do: whole numbers are int64.
func object(raw []byte) (*unstructured.Unstructured, error) {
	content := map[string]any{}
	if err := utiljson.Unmarshal(raw, &content); err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: content}, nil
}
