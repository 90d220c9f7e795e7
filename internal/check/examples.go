package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// examples runs the programs of the README as a reader would: first single processes, then pairs over UDP.
func examples(ctx context.Context, r *runner) error {
	for _, dir := range []string{"examples/first", "examples/pingpong"} {
		if !r.present(dir) {
			return skip("the tree has no " + dir)
		}
	}
	dir, err := os.MkdirTemp("", "ddk-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := r.do(ctx, []string{"CGO_ENABLED=0"}, "go", "build", "-o", dir+string(filepath.Separator),
		"./examples/..."); err != nil {
		return err
	}
	exe := ""
	if runtime.GOOS == "windows" {
		exe = ".exe"
	}
	if err := r.do(ctx, nil, filepath.Join(dir, "first"+exe)); err != nil {
		return err
	}
	for _, p := range pairs {
		if err := r.pair(ctx, filepath.Join(dir, p.program+exe), p); err != nil {
			return fmt.Errorf("%s: %w", p.program, err)
		}
	}
	return nil
}

// An exchange is a program that communicates with itself: a server on 127.0.0.1 and a client on 127.0.0.2.
type exchange struct {
	program        string
	server, client []string
	stays          bool // the server keeps running when its client ends
}

var pairs = []exchange{
	{program: "pingpong", server: []string{"rc", "-c"}, client: []string{"rc", "-c", "-d", "127.0.0.2", "127.0.0.1"}},
	{program: "pingpong", server: []string{"uc", "-c"}, client: []string{"uc", "-c", "-d", "127.0.0.2", "127.0.0.1"}},
	{program: "pingpong", server: []string{"ud", "-c"}, client: []string{"ud", "-c", "-d", "127.0.0.2", "127.0.0.1"}},
	{program: "pingpong", server: []string{"srq", "-c"}, client: []string{"srq", "-c", "-d", "127.0.0.2", "127.0.0.1"}},
	{program: "rping", server: []string{"-s", "-a", "127.0.0.1"}, client: []string{"-c", "-a", "127.0.0.1", "-I",
		"127.0.0.2", "-C", "10", "-V", "-S", "65535"}},
	{program: "perftest", server: []string{"send_bw"}, client: []string{"send_bw", "-d", "127.0.0.2", "127.0.0.1"}},
	{program: "perftest", server: []string{"write_lat", "-R"}, client: []string{"write_lat", "-R", "-d",
		"127.0.0.2", "127.0.0.1"}},
	{program: "lnd", server: []string{"serve"}, client: []string{"ping", "127.0.0.1"}, stays: true},
}

// pair runs a server and, when it is ready, its client, in two processes on two loopback addresses.
func (r *runner) pair(ctx context.Context, bin string, p exchange) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fmt.Fprintf(r.out, "$ %s %s    # and its client: %s %s\n", p.program, strings.Join(p.server, " "), p.program,
		strings.Join(p.client, " "))
	server := r.command(ctx, nil, bin, p.server...)
	server.Stderr = r.out
	pr, pw := io.Pipe()
	server.Stdout = pw
	if err := server.Start(); err != nil {
		return err
	}
	up, said := make(chan struct{}), make(chan string, 1)
	go func() {
		var text strings.Builder
		sc := bufio.NewScanner(pr)
		for sc.Scan() {
			if text.Len() == 0 {
				close(up)
			}
			text.WriteString("  server: " + sc.Text() + "\n")
		}
		said <- text.String()
	}()
	ended := make(chan error, 1)
	go func() {
		err := server.Wait()
		pw.Close()
		ended <- err
	}()
	select {
	case <-up:
	case err := <-ended:
		return fmt.Errorf("the server ended before its client came: %w", errors.Join(err, ctx.Err()))
	}
	out, err := r.command(ctx, nil, bin, p.client...).CombinedOutput()
	if err != nil {
		cancel()
		err = fmt.Errorf("client: %w\n%s", err, out)
	}
	if p.stays {
		cancel()
		stopped := <-ended
		fmt.Fprintf(r.out, "  server: ended, %v\n", stopped)
	} else {
		err = errors.Join(err, <-ended)
	}
	fmt.Fprintf(r.out, "%s%s", <-said, out)
	return err
}
