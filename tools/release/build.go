package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// architectures are those of a release.
var architectures = []string{"amd64", "arm64"}

// name is that of the packages, and the first part of the names of files.
const name = "ciddk"

// build builds the programs for an architecture, and everything that is made of them. The programs themselves are in
// the folder linux_ARCH/bin, which the Dockerfile uses. build returns the names of the files to publish.
func (r release) build(ctx context.Context, arch string) ([]string, error) {
	at := filepath.Join(r.out, "linux_"+arch)
	if err := r.compile(ctx, arch, filepath.Join(at, "bin")); err != nil {
		return nil, err
	}
	programs, err := readPrograms(filepath.Join(at, "bin"))
	if err != nil {
		return nil, err
	}
	base := fmt.Sprintf("%s_%s_linux_%s", name, r.version, arch)
	bom := filepath.Join(r.out, base+".cdx.json")
	if err := r.writeBOM(bom, programs); err != nil {
		return nil, err
	}
	licenses := filepath.Join(at, "THIRD-PARTY-LICENSES")
	if err := r.writeLicenses(ctx, licenses, programs); err != nil {
		return nil, err
	}
	files := r.files(programs, bom, licenses)
	if err := r.writeArchive(base, files); err != nil {
		return nil, err
	}
	names := []string{base + ".tar.gz", base + ".cdx.json"}
	for _, format := range []string{"deb", "rpm"} {
		n, err := r.writePackage(format, arch, files)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", format, err)
		}
		names = append(names, n)
	}
	return names, nil
}

// compile builds all programs for an architecture into a folder.
func (r release) compile(ctx context.Context, arch, folder string) error {
	module, err := exec.CommandContext(ctx, "go", "-C", r.root, "list", "-m").Output()
	if err != nil {
		return err
	}
	flags := "-s -w -buildid= -X " + strings.TrimSpace(string(module)) + "/internal/version.release=v" + r.version
	c := exec.CommandContext(ctx, "go", "-C", r.root, "build", "-trimpath", "-buildvcs=false", "-ldflags", flags,
		"-o", folder+"/", "./cmd/...")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c.Run()
}

// A program is one that was built.
type program struct {
	name, path string
	info       *debug.BuildInfo
}

// readPrograms returns the programs in a folder, by name.
func readPrograms(folder string) ([]program, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var programs []program
	for _, e := range entries {
		p := program{name: e.Name(), path: filepath.Join(folder, e.Name())}
		if p.info, err = buildinfo.ReadFile(p.path); err != nil {
			return nil, err
		}
		programs = append(programs, p)
	}
	return programs, nil
}

// writeLicenses writes the licenses of Go and of the modules in the programs, which ask that copies of the programs
// come with them.
func (r release) writeLicenses(ctx context.Context, file string, programs []program) error {
	goroot, err := exec.CommandContext(ctx, "go", "-C", r.root, "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	folders := map[string]string{"Go " + programs[0].info.GoVersion: strings.TrimSpace(string(goroot))}
	for _, p := range programs {
		for _, m := range p.info.Deps {
			key := m.Path + " " + m.Version
			if folders[key] != "" {
				continue
			}
			b, err := exec.CommandContext(ctx, "go", "-C", r.root, "mod", "download", "-json",
				m.Path+"@"+m.Version).Output()
			if err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			var got struct{ Dir string }
			if err := json.Unmarshal(b, &got); err != nil {
				return err
			}
			folders[key] = got.Dir
		}
	}
	var out bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(folders)) {
		before := out.Len()
		for _, pattern := range []string{"LICENSE*", "COPYING*", "NOTICE*"} {
			files, err := filepath.Glob(filepath.Join(folders[key], pattern))
			if err != nil {
				return err
			}
			for _, f := range files {
				text, err := os.ReadFile(f)
				if err != nil {
					return err
				}
				fmt.Fprintf(&out, "==== %s: %s\n\n%s\n", key, filepath.Base(f), text)
			}
		}
		if out.Len() == before {
			return fmt.Errorf("%s: %s has no license file", key, folders[key])
		}
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}
