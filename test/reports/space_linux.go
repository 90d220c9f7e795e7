package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"ciddk/internal/debian"
)

// judgeSpace certifies the kit's adapter as programs of a user space see it, through its libibverbs and its stock
// provider, without workarounds.
func (s *subject) judgeSpace(ctx context.Context, programs, cases string) (*result, error) {
	root, err := debian.Set{Name: "report-" + s.space, Suite: s.space, Packages: []string{"libc6", "libc-bin",
		"coreutils", "dash", "rdma-core", "ibverbs-utils", "ibverbs-providers"}}.Root(ctx, nil)
	if err != nil {
		return nil, err
	}
	versions, err := debian.Versions(root)
	if err != nil {
		return nil, err
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp(programs, "run-")
	if err != nil {
		return nil, err
	}
	json, junit := filepath.Join(tmp, "report.json"), filepath.Join(tmp, "junit.xml")
	line := append(debian.Enter(root, programs), filepath.Join(programs, "ddkrun"), "--no-workarounds", "--idle", "0",
		"--carrier", "preload")
	args := s.command(json, junit, cases)
	line = append(append(line, filepath.Join(programs, args[0])), args[1:]...)
	c := exec.CommandContext(ctx, line[0], line[1:]...)
	c.Env = []string{"PATH=/usr/sbin:/usr/bin", "HOME=" + tmp, "XDG_RUNTIME_DIR=" + tmp, "LC_ALL=C.UTF-8",
		"XDG_CACHE_HOME=" + tmp}
	var log bytes.Buffer
	c.Stdout = io.MultiWriter(&log, os.Stderr)
	c.Stderr = c.Stdout
	started := time.Now()
	runErr := c.Run() // with an exit code, if a case fails
	out := &result{log: log.String(), kernel: string(bytes.TrimSpace(release)), library: versions["ibverbs-providers"],
		took: time.Since(started)}
	if out.report, err = os.ReadFile(json); err != nil {
		return nil, errors.Join(err, fmt.Errorf("%w: %s", runErr, out.log))
	}
	b, err := os.ReadFile(junit)
	out.junit = string(b)
	return out, err
}
