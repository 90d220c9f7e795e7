package debian

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// aptConfig is the configuration of an apt of its own in a folder: its lists, packages and status are there.
//
// Signatures are checked. The date until which the lists are valid is not, because a machine's mirror may be a
// snapshot: an older state of the suite does as well.
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
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
Acquire::Check-Valid-Until "false";
`

// install downloads the packages, and unpacks them to root, which exists completely or not at all. dir is the set's.
func (s Set) install(ctx context.Context, dir, root string) error {
	archive := s.Archive
	if archive.Origin == "" {
		archive = debianArchive
	}
	mirror, err := archive.mirror(ctx)
	if err != nil {
		return err
	}
	keyring := filepath.Join("/usr/share/keyrings", archive.Keyring)
	if _, err := os.Stat(keyring); err != nil {
		return fmt.Errorf("debian: the archive's keys are missing: %w (install the package with that file)", err)
	}
	work, err := os.MkdirTemp(dir, "install-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, d := range []string{"state/lists/partial", "cache/archives/partial", "etc/empty", "etc/apt.conf.d",
		"etc/preferences.d"} {
		if err := os.MkdirAll(filepath.Join(work, d), 0o755); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"state/status": "", // no package is installed, so that apt takes all that the packages depend on
		"etc/sources.list": fmt.Sprintf("deb [signed-by=%s] %s %s %s\n", keyring, mirror, s.Suite,
			archive.Components),
		"apt.conf": fmt.Sprintf(aptConfig, work),
	} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	env := []string{"APT_CONFIG=" + filepath.Join(work, "apt.conf")}
	if _, err := run(ctx, env, "apt-get", "-q", "update"); err != nil {
		return err
	}
	args := append([]string{"-q", "-y", "--download-only", "-o", "Debug::NoLocking=true", "install"}, s.Packages...)
	if _, err := run(ctx, env, "apt-get", args...); err != nil {
		return err
	}
	made := filepath.Join(work, "root")
	if err := unpack(ctx, filepath.Join(work, "cache/archives"), made); err != nil {
		return err
	}
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	return os.Rename(made, root)
}

// unpack unpacks packages to a directory. All programs and libraries are below /usr, as in the systems of today, also
// those of packages that precede that.
func unpack(ctx context.Context, archives, root string) error {
	packages, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	if err != nil || len(packages) == 0 {
		return errors.Join(fmt.Errorf("debian: apt downloaded no packages to %s", archives), err)
	}
	for _, d := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.MkdirAll(filepath.Join(root, "usr", d), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("usr/"+d, filepath.Join(root, d)); err != nil {
			return err
		}
	}
	var versions strings.Builder
	const script = `set -o pipefail
dpkg-deb --fsys-tarfile "$0" | tar -x --keep-directory-symlink --no-same-owner -C "$1"`
	for _, p := range packages {
		if _, err := run(ctx, nil, "bash", "-c", script, p, root); err != nil {
			return err
		}
		v, err := run(ctx, nil, "dpkg-deb", "-W", p)
		if err != nil {
			return err
		}
		versions.Write(v)
	}
	if _, err := run(ctx, nil, "ldconfig", "-r", root); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, VersionsFile), []byte(versions.String()), 0o644)
}

// mirror returns the address of the archive, first of all that in the machine's apt sources.
func (a Archive) mirror(ctx context.Context) (string, error) {
	b, err := run(ctx, nil, "apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(COMPONENT) $(REPO_URI)",
		"Created-By: Packages")
	if err != nil {
		return "", err
	}
	return a.mirrorOf(string(b))
}

// mirrorOf finds the archive in a list of sources: lines of origin, label, component and address.
func (a Archive) mirrorOf(list string) (string, error) {
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		if len(f) == 4 && f[0] == a.Origin && f[1] == a.Origin && f[2] == "main" {
			return f[3], nil
		}
	}
	if a.Address != "" {
		return a.Address, nil
	}
	return "", fmt.Errorf("debian: the machine's apt sources have no %s archive (on %[1]s: apt-get update)", a.Origin)
}

// run runs a program and returns its standard output.
func run(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"), env...)
	var stderr strings.Builder
	c.Stderr = &stderr
	b, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("debian: %s %s: %w: %s", name, strings.Join(args, " "), err,
			strings.TrimSpace(stderr.String()))
	}
	return b, nil
}
