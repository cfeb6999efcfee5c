// SPDX-License-Identifier: Apache-2.0

// What holds the namespaces of a pod: it waits for a signal.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	<-ended
}
