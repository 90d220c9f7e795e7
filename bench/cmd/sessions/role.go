package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"ciddk/cmd/ddkd/cli"
	"ciddk/cmd/ddkd/software"
)

// Environment of the processes that a run starts.
const (
	roleEnv = "SESSIONS_ROLE"
	dirEnv  = "SESSIONS_DIR"
)

// Names of the sockets in the run's folder.
const (
	socketName  = "ddkd"
	echoName    = "echo"
	rawEchoName = "echo-blocking"
)

// runRole is a process that a run started.
func runRole(ctx context.Context, role string, out io.Writer) error {
	dir := os.Getenv(dirEnv)
	fields := strings.Fields(role)
	switch fields[0] {
	case "daemon":
		return runDaemon(ctx, dir, out)
	case "echo":
		return runEcho(dir, out)
	case "client":
		n, err := strconv.Atoi(fields[1])
		if err != nil {
			return err
		}
		return runClient(dir, n, out)
	}
	return fmt.Errorf("no role %q", role)
}

// runDaemon is ddkd with one adapter, until standard input ends.
func runDaemon(ctx context.Context, dir string, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	socket := filepath.Join(dir, socketName)
	done := make(chan int, 1)
	go func() {
		done <- cli.Run(ctx, cli.Config{Name: "ddkd", Drivers: []cli.Driver{software.Driver()}, Stdout: io.Discard},
			[]string{"serve", "--log=warn", "--drain=1s", "--socket", socket, "--max-clients-per-user=100000",
				"--max-clients=100000", "--adapter", "link=network,address=10.0.0.1"})
	}()
	if err := awaitSocket(socket); err != nil {
		return err
	}
	fmt.Fprintln(out, "ready")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the run closes it
	stop()
	if code := <-done; code != 0 {
		return fmt.Errorf("the daemon exited with status %d", code)
	}
	return nil
}

// runClient holds sessions and executes the commands of the run.
func runClient(dir string, n int, out io.Writer) error {
	list, err := openSessions(dir, n)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "ready")
	s := bufio.NewScanner(os.Stdin)
	for s.Scan() {
		fields := strings.Fields(s.Text())
		n, err := strconv.Atoi(fields[1])
		if err != nil {
			return err
		}
		switch fields[0] {
		case "objects":
			if err := createObjects(list, n); err != nil {
				return err
			}
			fmt.Fprintln(out, "done")
		case "measure":
			t, err := measure(dir, list[0], n)
			if err != nil {
				return err
			}
			text, err := json.Marshal(t)
			if err != nil {
				return err
			}
			fmt.Fprintln(out, string(text))
		}
	}
	for _, x := range list {
		if err := x.client.Close(); err != nil {
			return err
		}
	}
	return s.Err()
}
