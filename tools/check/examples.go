package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"ciddk/internal/testenv"
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
	server, client, err := freeAddresses(ctx)
	if err != nil {
		return err
	}
	addresses := strings.NewReplacer("SERVER", server, "CLIENT", client)
	for _, p := range pairs {
		p.server, p.client = addresses.Replace(p.server), addresses.Replace(p.client)
		if err := r.pair(ctx, filepath.Join(dir, p.program+exe), p); err != nil {
			return fmt.Errorf("%s: %w", p.program, err)
		}
	}
	return nil
}

// An exchange is a program that communicates with itself. In the arguments, SERVER and CLIENT stand for the addresses.
type exchange struct {
	program        string
	server, client string
	stays          bool // the server keeps running when its client ends
}

var pairs = []exchange{
	{program: "pingpong", server: "rc -c -d SERVER", client: "rc -c -d CLIENT SERVER"},
	{program: "pingpong", server: "uc -c -d SERVER", client: "uc -c -d CLIENT SERVER"},
	{program: "pingpong", server: "ud -c -d SERVER", client: "ud -c -d CLIENT SERVER"},
	{program: "pingpong", server: "srq -c -d SERVER", client: "srq -c -d CLIENT SERVER"},
	{program: "rping", server: "-s -a SERVER", client: "-c -a SERVER -I CLIENT -C 10 -V -S 65535"},
	{program: "perftest", server: "send_bw -d SERVER", client: "send_bw -d CLIENT SERVER"},
	{program: "perftest", server: "write_lat -R -d SERVER", client: "write_lat -R -d CLIENT SERVER"},
	{program: "lnd", server: "serve --addr SERVER", client: "ping --addr CLIENT SERVER", stays: true},
}

// freeAddresses returns two loopback addresses that no other program uses for RoCEv2 or for the exchange of the
// examples.
func freeAddresses(ctx context.Context) (server, client string, err error) {
	const tcpPort = "18515" // of pingpong and perftest
	var l net.ListenConfig
	for i := 1; i < 255 && client == ""; i++ {
		a := fmt.Sprintf("127.0.0.%d", i)
		var u net.PacketConn
		var t net.Listener
		if u, err = l.ListenPacket(ctx, "udp", net.JoinHostPort(a, strconv.Itoa(testenv.RoCEv2Port))); err != nil {
			continue
		}
		_ = u.Close()
		if t, err = l.Listen(ctx, "tcp", net.JoinHostPort(a, tcpPort)); err != nil {
			continue
		}
		_ = t.Close()
		server, client = cmp.Or(server, a), a
		if client == server {
			client = ""
		}
	}
	if client == "" {
		return "", "", fmt.Errorf("no two free addresses of 127.0.0.0/24 for RoCEv2: %w", err)
	}
	return server, client, nil
}

// pair runs a server and, when it is ready, its client, in two processes on two loopback addresses.
func (r *runner) pair(ctx context.Context, bin string, p exchange) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fmt.Fprintf(r.out, "$ %s %s    # and its client: %s %s\n", p.program, p.server, p.program, p.client)
	server := r.command(ctx, nil, bin, strings.Fields(p.server)...)
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
	out, err := r.command(ctx, nil, bin, strings.Fields(p.client)...).CombinedOutput()
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
