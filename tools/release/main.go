// Command release builds what a release of the kit consists of: programs for Linux on x86-64 and arm64 as archives,
// .deb and .rpm packages, a software bill of materials (SBOM) for each, and checksums. Two builds of one commit, with
// one release of Go, are identical. Nothing is published; .github/workflows/release.yml does that.
//
//	go -C tools/release run . -version v1.2.3 -out /tmp/release
//
// The command is in a module of its own, so that users of the kit do not depend on its modules.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// A release is what is built, and from what.
type release struct {
	root    string    // of the tree
	out     string    // directory for the files
	version string    // without "v"
	time    time.Time // of all files
}

func main() {
	root := flag.String("root", filepath.Join("..", ".."), "root of the `tree`")
	version := flag.String("version", "", "`version` of the release, such as v1.2.3")
	out := flag.String("out", "", "`directory` for the files; it must not exist, or be empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *root, *out, *version); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root, out, version string) error {
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return fmt.Errorf("-version %q is not a version, such as v1.2.3", version)
	}
	if out == "" {
		return errors.New("-out is missing")
	}
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	if root, err = filepath.Abs(root); err != nil {
		return err
	}
	if old, err := os.ReadDir(out); err == nil && len(old) > 0 {
		return fmt.Errorf("-out %s is not empty", out)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	r := release{root: root, out: out, version: strings.TrimPrefix(version, "v")}
	if r.time, err = sourceTime(ctx, root); err != nil {
		return err
	}
	var names []string
	for _, arch := range architectures {
		more, err := r.build(ctx, arch)
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		names = append(names, more...)
	}
	return r.checksums(names)
}

// sourceTime returns the time of $SOURCE_DATE_EPOCH, or that of the commit.
func sourceTime(ctx context.Context, root string) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		b, err := exec.CommandContext(ctx, "git", "-C", root, "log", "-1", "--format=%ct").Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("git does not know the time of the commit (set SOURCE_DATE_EPOCH): %w", err)
		}
		text = strings.TrimSpace(string(b))
	}
	s, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(s, 0).UTC(), nil
}

// checksums writes SHA256SUMS for files in the directory.
func (r release) checksums(names []string) error {
	var sums strings.Builder
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(b), name)
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
