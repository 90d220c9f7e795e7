package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"

	"ciddk/internal/testenv"
)

const (
	// busyProcesses is the number of processes that compete with the certifier in the load step.
	busyProcesses = 8
	// niceness of the certifier; the busy processes have priority
	niceness = "6"
	// loadParts is the number of parts of the cases. The first is the core.
	loadParts = 4
	// spinEnv is the environment variable that makes this program one of the busy processes.
	spinEnv = "CIDDK_CHECK_SPIN"
)

// load certifies the reference HCA on a busy machine: the verdict must not depend on the load.
func load(ctx context.Context, r *runner) error {
	nice, err := exec.LookPath("nice")
	if runtime.GOOS == "windows" || err != nil {
		return skip("there is no nice on this machine")
	}
	bin, cleanup, err := r.validator(ctx)
	if err != nil {
		return err
	}
	defer cleanup()
	stop, err := r.spinners(ctx, busyProcesses)
	if err != nil {
		return err
	}
	defer stop()
	args := []string{"-n", niceness, bin, "run", "reference", "--quiet"}
	if !testenv.Whole() {
		args = append(args, "--shard", fmt.Sprintf("1/%d", loadParts))
	}
	for i := range r.loadRuns {
		fmt.Fprintf(r.out, "run %d of %d, beside %d busy processes\n", i+1, r.loadRuns, busyProcesses)
		if err := r.do(ctx, nil, nice, args...); err != nil {
			return fmt.Errorf("run %d of %d: %w", i+1, r.loadRuns, err)
		}
	}
	return nil
}

// spinners starts n processes that use a processor each until stop is called or this process ends.
func (r *runner) spinners(ctx context.Context, n int) (stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var started []*exec.Cmd
	stop = func() {
		cancel()
		for _, c := range started {
			_ = c.Wait() // killed by cancel
		}
	}
	for range n {
		c := r.command(ctx, []string{spinEnv + "=1"}, self)
		if _, err := c.StdinPipe(); err != nil {
			stop()
			return nil, err
		}
		if err := c.Start(); err != nil {
			stop()
			return nil, err
		}
		started = append(started, c)
	}
	return stop, nil
}

// spin uses a processor until in ends. It ends when the parent process ends, however that happens.
func spin(in io.Reader) {
	runtime.GOMAXPROCS(2) // one goroutine spins, the other reads
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(0)
	}()
	for n := 0; ; n++ {
	}
}
