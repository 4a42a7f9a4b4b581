package main

import (
	"fmt"
	"runtime/debug"
)

type versionCmd struct{}

// Run prints the module version that the Go toolchain recorded.
func (versionCmd) Run(g *Globals) error {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	_, err := fmt.Fprintf(g.Stdout, "jobtrail %s\n", version)
	return err
}
