package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// aptConfig is the configuration of an apt of its own in a folder: its lists, packages and status are there.
//
// Signatures are checked. The date until which the lists are valid is not, because a machine's mirror may be a
// snapshot: an older QEMU of the suite does as well.
const aptConfig = `Dir "%[1]s";
Dir::State "%[1]s/state";
Dir::State::status "%[1]s/state/status";
Dir::Cache "%[1]s/cache";
Dir::Etc "%[1]s/etc";
Dir::Etc::sourcelist "%[1]s/etc/sources.list";
Dir::Etc::sourceparts "%[1]s/etc/empty";
Dir::Etc::parts "%[1]s/etc/empty";
Dir::Etc::preferencesparts "%[1]s/etc/empty";
Dir::Log "%[1]s";
APT::Install-Recommends "false";
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
APT::Sandbox::User "root";
APT::Get::AllowUnauthenticated "false";
Acquire::AllowInsecureRepositories "false";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
`

// suite is the suite of Debian that has a QEMU with vfio-user.
const suite = "sid"

// install downloads the emulator's package with all that it depends on, and unpacks them to dir/root.
func install(ctx context.Context, dir string) error {
	mirror, err := debianMirror(ctx)
	if err != nil {
		return err
	}
	if _, err := os.Stat(keyring); err != nil {
		return fmt.Errorf("qemu: the keys of Debian's archive are missing: %w (apt-get install debian-archive-keyring)",
			err)
	}
	work, err := os.MkdirTemp(dir, "install-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, d := range []string{"state/lists/partial", "cache/archives/partial", "etc/empty", "etc/apt.conf.d",
		"etc/preferences.d", "root"} {
		if err := os.MkdirAll(filepath.Join(work, d), 0o755); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"state/status":     "", // no package is installed, so that apt takes all that QEMU depends on
		"etc/sources.list": fmt.Sprintf("deb [signed-by=%s] %s %s main\n", keyring, mirror, suite),
		"apt.conf":         fmt.Sprintf(aptConfig, work),
	} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	env := []string{"APT_CONFIG=" + filepath.Join(work, "apt.conf")}
	if _, err := run(ctx, env, "apt-get", "-q", "update"); err != nil {
		return err
	}
	if _, err := run(ctx, env, "apt-get", "-q", "-y", "--download-only", "-o", "Debug::NoLocking=true", "install",
		"qemu-system-x86"); err != nil {
		return err
	}
	return unpack(ctx, work, dir)
}

// unpack unpacks the packages in the cache of work, and moves the result to dir.
func unpack(ctx context.Context, work, dir string) error {
	packages, err := filepath.Glob(filepath.Join(work, "cache/archives/*.deb"))
	if err != nil || len(packages) == 0 {
		return errors.Join(fmt.Errorf("qemu: apt downloaded no packages to %s", work), err)
	}
	root := filepath.Join(work, "root")
	var versions strings.Builder
	for _, p := range packages {
		if _, err := run(ctx, nil, "dpkg-deb", "-x", p, root); err != nil {
			return err
		}
		v, err := run(ctx, nil, "dpkg-deb", "-W", p)
		if err != nil {
			return err
		}
		versions.Write(v)
	}
	if err := os.WriteFile(filepath.Join(root, "packages"), []byte(versions.String()), 0o644); err != nil {
		return err
	}
	old := filepath.Join(dir, "root")
	if err := os.RemoveAll(old); err != nil {
		return err
	}
	return os.Rename(root, old)
}

// debianMirror returns the address of the Debian archive in the machine's apt sources.
func debianMirror(ctx context.Context) (string, error) {
	b, err := run(ctx, nil, "apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(COMPONENT) $(REPO_URI)",
		"Created-By: Packages")
	if err != nil {
		return "", err
	}
	return mirrorOf(string(b))
}

// mirrorOf finds Debian's own archive in a list of sources: lines of origin, label, component and address.
func mirrorOf(list string) (string, error) {
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		if len(f) == 4 && f[0] == "Debian" && f[1] == "Debian" && f[2] == "main" {
			return f[3], nil
		}
	}
	return "", errors.New("qemu: the machine's apt sources have no Debian archive (on Debian: apt-get update)")
}
