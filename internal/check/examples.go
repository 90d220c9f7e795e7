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

// examples runs the programs of the README as a reader would: one process, then two that talk over UDP.
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
	if err := r.do(ctx, []string{"CGO_ENABLED=0"}, "go", "build", "-o", dir+string(filepath.Separator), "./examples/..."); err != nil {
		return err
	}
	exe := ""
	if runtime.GOOS == "windows" {
		exe = ".exe"
	}
	if err := r.do(ctx, nil, filepath.Join(dir, "first"+exe)); err != nil {
		return err
	}
	for _, mode := range []string{"rc", "uc", "ud", "srq"} {
		if err := r.pair(ctx, filepath.Join(dir, "pingpong"+exe), mode); err != nil {
			return fmt.Errorf("pingpong %s: %w", mode, err)
		}
	}
	return nil
}

// pair runs a server and, once it says that it is there, its client, in two processes on two loopback addresses. Both check the data.
func (r *runner) pair(ctx context.Context, bin, mode string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fmt.Fprintf(r.out, "$ pingpong %s -c    # and its client: pingpong %s -c -d 127.0.0.2 127.0.0.1\n", mode, mode)
	server := r.command(ctx, nil, bin, mode, "-c")
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
	out, err := r.command(ctx, nil, bin, mode, "-c", "-d", "127.0.0.2", "127.0.0.1").CombinedOutput()
	if err != nil {
		cancel()
		err = fmt.Errorf("client: %w\n%s", err, out)
	}
	err = errors.Join(err, <-ended)
	fmt.Fprintf(r.out, "%s%s", <-said, out)
	return err
}
