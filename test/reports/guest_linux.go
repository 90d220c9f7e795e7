package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"ciddk/internal/debian"
	"ciddk/test/linux/guest"
)

// Paths in the guest.
const (
	jsonPath  = "/tmp/report.json"
	junitPath = "/tmp/junit.xml"
)

// judge boots the machine of a subject, and certifies its device.
func (s *subject) judge(ctx context.Context, programs, cases string) (_ *result, err error) {
	c := guest.Config{MemoryMB: 2048, Modules: s.modules,
		Programs: []string{"busybox", filepath.Join(programs, certifier)}}
	if s.kernel != "" {
		if c.Kernel, err = kernelRoot(ctx, s.kernel); err != nil {
			return nil, err
		}
	}
	net, err := guest.NewNetwork(ctx, guest.NetworkConfig{MTU: 9000})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, net.Close()) }()
	g, err := net.Boot(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, line := range s.setup {
		if r, err := g.Run(ctx, line...); err != nil || r.Code != 0 {
			return nil, errors.Join(err, fmt.Errorf("%v: %s", line, r.Stderr))
		}
	}
	out := &result{kernel: g.Kernel(), library: version("ibverbs-providers")}
	started := time.Now()
	p, err := g.Start(ctx, s.command(jsonPath, junitPath, cases)...)
	if err != nil {
		return nil, err
	}
	stop := progress(p.Output)
	r, err := p.Wait()
	stop()
	if err != nil {
		return nil, err
	}
	out.took, out.log = time.Since(started), r.Stdout+r.Stderr
	for path, to := range map[string]func(string){
		jsonPath:  func(s string) { out.report = []byte(s) },
		junitPath: func(s string) { out.junit = s },
	} {
		f, err := g.Run(ctx, "busybox", "cat", path)
		if err != nil || f.Code != 0 {
			return nil, errors.Join(err, fmt.Errorf("%s: %s; the certifier: %s", path, f.Stderr, out.log))
		}
		to(f.Stdout)
	}
	return out, nil
}

// version returns the version of an installed package, or "unknown".
func version(pkg string) string {
	b, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", pkg).Output()
	if err != nil {
		return "unknown"
	}
	return string(b)
}

// kernelRoot unpacks the kernel of a suite. The list of its modules, which a script of the package would make, is made
// by depmod.
func kernelRoot(ctx context.Context, suite string) (string, error) {
	return debian.Set{Name: "kernel-" + suite, Suite: suite, Packages: []string{"linux-image-amd64"}}.Root(ctx,
		func(root string) error {
			images, err := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*"))
			if err != nil || len(images) == 0 {
				return errors.Join(err, fmt.Errorf("%s has no kernel", root))
			}
			for _, i := range images {
				release := strings.TrimPrefix(filepath.Base(i), "vmlinuz-")
				if _, err := os.Stat(filepath.Join(root, "lib/modules", release, "modules.dep")); err == nil {
					continue
				}
				if out, err := exec.CommandContext(ctx, "depmod", "-b", root, release).CombinedOutput(); err != nil {
					return fmt.Errorf("depmod: %w: %s", err, out)
				}
			}
			return nil
		})
}

// progress prints what is new in an output, a few times a minute, until stop is called.
func progress(output func() string) (stop func()) {
	done := make(chan struct{})
	go func() {
		printed := 0
		for {
			select {
			case <-done:
				return
			case <-time.After(10 * time.Second):
				all := output()
				fmt.Fprint(os.Stderr, all[printed:])
				printed = len(all)
			}
		}
	}()
	return func() { close(done) }
}
