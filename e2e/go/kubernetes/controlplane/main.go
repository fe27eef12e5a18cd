// Command controlplane is etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler in one binary: they share most of their code, so one file
// builds faster and takes less room than four.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

const usage = "usage: controlplane etcd|kube-apiserver|kube-controller-manager|kube-scheduler [flags]"

var components = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
}

func main() {
	if len(os.Args) < 2 {
		fail(usage)
	}
	name, args := os.Args[1], os.Args[2:]
	if name == "etcd" {
		// etcd reads the flags of the process it is given, its own name first.
		etcdmain.Main(append([]string{name}, args...))
		return
	}
	newCommand, known := components[name]
	if !known {
		fail(fmt.Sprintf("controlplane: unknown component %q\n%s", name, usage))
	}
	command := newCommand()
	command.SetArgs(args)
	os.Exit(cli.Run(command))
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, message)
	os.Exit(2)
}
