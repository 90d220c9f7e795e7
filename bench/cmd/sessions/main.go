package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// plan is what a run does.
type plan struct {
	processes int // of clients
	sessions  int // of all processes together
	objects   int // of all sessions together
	verbs     int // of each kind that are measured
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if role := os.Getenv(roleEnv); role != "" {
		exit(runRole(ctx, role, os.Stdout))
	}
	p := plan{}
	flag.IntVar(&p.processes, "processes", 50, "client processes")
	flag.IntVar(&p.sessions, "sessions", 1000, "sessions of all processes together")
	flag.IntVar(&p.objects, "objects", 100_000, "objects of all sessions together")
	flag.IntVar(&p.verbs, "verbs", 20_000, "verbs of each kind that are measured")
	flag.Parse()
	r, err := p.run(ctx)
	if err == nil {
		r.print(os.Stdout)
	}
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "sessions:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// print prints the report.
func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "%d sessions of %d processes, %d objects\n\n", r.Sessions, r.Processes, r.Objects)
	fmt.Fprintf(w, "echo, package net          %8.1f µs\n", r.Times.Echo)
	fmt.Fprintf(w, "echo, blocking calls       %8.1f µs\n\n", r.Times.RawEcho)
	for _, v := range r.Times.Verbs {
		fmt.Fprintf(w, "%-24s   %8.1f µs  %5.2f times the echo  %5.2f times that of blocking calls\n", v.Name, v.Median,
			v.Median/r.Times.Echo, v.Median/r.Times.RawEcho)
	}
	fmt.Fprintf(w, "\nmemory of the daemon: %.1f KiB for an idle session, %.2f KiB for an object\n", r.SessionKiB,
		r.ObjectKiB)
}
