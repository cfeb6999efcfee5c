// SPDX-License-Identifier: Apache-2.0

// One program with every server of a small Kubernetes cluster, so that a test can build and start a real one.
//
// Its first argument names the server: etcd, kube-apiserver, kube-controller-manager, kube-scheduler or kubelet. The
// rest are that server's own options.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var servers = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

func main() {
	if len(os.Args) > 1 {
		if os.Args[1] == "etcd" {
			etcdmain.Main(os.Args[1:])
			return
		}
		if command, ok := servers[os.Args[1]]; ok {
			os.Args = os.Args[1:]
			os.Exit(cli.Run(command()))
		}
	}
	fmt.Fprintln(os.Stderr, "name a server first: etcd, kube-apiserver, kube-controller-manager, kube-scheduler or kubelet")
	os.Exit(2)
}
