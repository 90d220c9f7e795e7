package main

import (
	"context"
	"debug/buildinfo"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/xeipuuv/gojsonschema"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

const testVersion = "v1.2.3"

func TestRefuses(t *testing.T) {
	full := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(full, "x"), nil, 0o600))
	for name, tt := range map[string]struct{ version, out, epoch, want string }{
		"no version":     {"", full, "", "is not a version"},
		"without v":      {"1.2.3", full, "", "is not a version"},
		"short":          {"v1.2", full, "", "is not a version"},
		"no directory":   {testVersion, "", "", "-out is missing"},
		"used directory": {testVersion, full, "", "is not empty"},
		"no time":        {testVersion, filepath.Join(full, "new"), "yesterday", "SOURCE_DATE_EPOCH"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SOURCE_DATE_EPOCH", tt.epoch)
			assert.ErrorContains(t, run(t.Context(), filepath.Join("..", ".."), tt.out, tt.version), tt.want)
		})
	}
}

// TestRelease builds a release, and checks everything in it with the programs that users have.
func TestRelease(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the packages of a release are installed and run on Linux on x86-64")
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	out := filepath.Join(t.TempDir(), "release")
	require.NoError(t, run(t.Context(), filepath.Join("..", ".."), out, testVersion))

	t.Run("programs", func(t *testing.T) { testPrograms(t, out) })
	t.Run("SBOM", func(t *testing.T) { testBOM(t, out) })
	t.Run("deb", func(t *testing.T) {
		testPackage(t, "dpkg", func(root string) [][]string {
			dpkg := []string{"dpkg", "--root=" + root}
			return [][]string{append(dpkg, "-i", filepath.Join(out, "ciddk_1.2.3_amd64.deb")),
				append(dpkg, "--purge", "ciddk")}
		})
	})
	t.Run("rpm", func(t *testing.T) {
		testPackage(t, "rpm", func(root string) [][]string {
			rpm := []string{"rpm", "--root=" + root, "--nodeps"}
			return [][]string{append(rpm, "-i", filepath.Join(out, "ciddk-1.2.3-1.x86_64.rpm")),
				append(rpm, "-e", "ciddk")}
		})
	})
	t.Run("image", func(t *testing.T) { testImage(t, out) })
	t.Run("action", func(t *testing.T) { testAction(t, out) })
	t.Run("reproducible", func(t *testing.T) {
		tree := filepath.Join(t.TempDir(), "elsewhere")
		require.NoError(t, os.Mkdir(tree, 0o755))
		execute(t, "sh", "-c", "tar -C ../.. --exclude=./.git --exclude=./out -cf - . | tar -C "+tree+" -xf -")
		again := filepath.Join(t.TempDir(), "again")
		require.NoError(t, run(t.Context(), tree, again, testVersion))
		assert.Equal(t, read(t, out, "SHA256SUMS"), read(t, again, "SHA256SUMS"))
	})
}

// testPrograms checks that the programs are static and stripped, and runs them.
func testPrograms(t *testing.T, out string) {
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	emulators := map[string]string{"arm64": "qemu-aarch64"}
	for _, arch := range architectures {
		programs, err := readPrograms(filepath.Join(out, "linux_"+arch, "bin"))
		require.NoError(t, err)
		require.NotEmpty(t, programs)
		for _, p := range programs {
			f, err := elf.Open(p.path)
			require.NoError(t, err)
			assert.Equal(t, machines[arch], f.Machine, p.path)
			assert.Nil(t, f.Section(".symtab"), p.path)
			assert.Nil(t, f.Section(".debug_info"), p.path)
			if p.name != "ddk-validate-verbs" { // it opens the libibverbs of the machine
				assert.Nil(t, f.Section(".interp"), "%s is not static", p.path)
			}
			assert.NoError(t, f.Close())
		}
		command := []string{filepath.Join(out, "linux_"+arch, "bin", "ddkrun"), "--version"}
		if e := emulators[arch]; e != "" {
			if command = append([]string{e}, command...); !has(e) {
				t.Logf("%s is missing, so that programs for %s did not run; install qemu-user", e, arch)
				continue
			}
		}
		assert.Contains(t, execute(t, command...), "ddkrun "+testVersion+", go")
	}
}

// testBOM checks a bill of materials with CycloneDX's schema, and against a program.
func testBOM(t *testing.T, out string) {
	path := filepath.Join(out, "ciddk_1.2.3_linux_arm64.cdx.json")
	module := strings.TrimSpace(execute(t, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go"))
	load := func(name string) gojsonschema.JSONLoader {
		return gojsonschema.NewStringLoader(read(t, module, "schema", name))
	}
	schemas := gojsonschema.NewSchemaLoader()
	require.NoError(t, schemas.AddSchemas(load("spdx.schema.json"), load("jsf-0.82.schemax.json")))
	schema, err := schemas.Compile(load("bom-1.6.schema.json"))
	require.NoError(t, err)
	result, err := schema.Validate(gojsonschema.NewStringLoader(read(t, path)))
	require.NoError(t, err)
	assert.Empty(t, result.Errors())

	var bom cdx.BOM
	require.NoError(t, cdx.NewBOMDecoder(strings.NewReader(read(t, path)), cdx.BOMFileFormatJSON).Decode(&bom))
	info, err := buildinfo.ReadFile(filepath.Join(out, "linux_arm64", "bin", "ddkd"))
	require.NoError(t, err)
	require.NotEmpty(t, info.Deps)
	want := []string{"pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go")}
	for _, m := range info.Deps {
		want = append(want, "pkg:golang/"+m.Path+"@"+m.Version)
	}
	known := map[string]bool{}
	for _, c := range *bom.Components {
		assert.False(t, known[c.BOMRef], "%s is listed twice", c.BOMRef)
		known[c.BOMRef] = true
	}
	depends := map[string][]string{}
	for _, d := range *bom.Dependencies {
		depends[d.Ref] = *d.Dependencies
		for _, on := range *d.Dependencies {
			assert.True(t, known[on], "%s is not a component", on)
		}
	}
	assert.ElementsMatch(t, want, depends["ddkd"])
}

// testPackage installs a package into a new root with a package manager, runs what it has installed, and removes it.
// commands returns the commands that install and remove it.
func testPackage(t *testing.T, manager string, commands func(root string) [][]string) {
	if os.Geteuid() != 0 {
		t.Skip("only root can install packages")
	}
	if !has(manager) || !has("busybox") {
		t.Skipf("no %s or no busybox; install %[1]s and busybox-static", manager)
	}
	root := t.TempDir()
	// What the package manager and the scripts of the package use.
	for _, dir := range []string{"bin", "etc", "run", "usr/bin", "var/lib/dpkg/info", "var/lib/dpkg/updates"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o600))
	shell, err := exec.LookPath("busybox")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(root, "bin/sh"), []byte(read(t, shell)), 0o755))
	// A stand-in for systemd's program notes that the package has called it.
	require.NoError(t, os.WriteFile(filepath.Join(root, "usr/bin/systemd-sysusers"),
		[]byte("#!/bin/sh\necho \"$@\" >/users\n"), 0o755))

	c := commands(root)
	execute(t, c[0]...)
	assert.Equal(t, "ddkd.conf\n", read(t, root, "users"))
	for _, p := range []string{"ddkrun", "ddkd", "ddk-validate"} {
		assert.Contains(t, execute(t, "chroot", root, "/usr/bin/"+p, "--version"), p+" "+testVersion)
	}
	execute(t, "chroot", root, "/usr/bin/ddkd", "check", "/etc/ddkd.yaml")
	for _, f := range []string{"lib/systemd/system/ddkd.service", "lib/systemd/system/ddkd.socket",
		"lib/sysusers.d/ddkd.conf", "share/doc/ciddk/copyright", "share/doc/ciddk/THIRD-PARTY-LICENSES"} {
		assert.NotEmpty(t, read(t, root, "usr", f))
	}
	execute(t, c[1]...)
	assert.NoFileExists(t, filepath.Join(root, "usr/bin/ddkrun"))
	assert.NoFileExists(t, filepath.Join(root, "etc/ddkd.yaml"))
}

// testImage builds the image and runs it.
func testImage(t *testing.T, out string) {
	if os.Geteuid() != 0 || !has("buildah") {
		t.Skip("needs root and buildah; install buildah")
	}
	at := t.TempDir()
	buildah := func(args ...string) string {
		return strings.TrimSpace(execute(t, append([]string{"buildah", "--root", filepath.Join(at, "root"), "--runroot",
			filepath.Join(at, "run"), "--storage-driver", "vfs"}, args...)...))
	}
	buildah("build", "--isolation", "chroot", "--platform", "linux/amd64", "-f", "Dockerfile", "-t", "ddkd", out)
	container := buildah("from", "--pull-never", "ddkd")
	for _, p := range []string{"ddkd", "ddkrun"} {
		got := buildah("run", "--isolation", "chroot", container, "--", "/"+p, "--version")
		assert.Contains(t, got, p+" "+testVersion)
	}
	assert.Contains(t, buildah("inspect", "--format", "{{.OCIv1.Config}}", container), "[/ddkd serve]")
	buildah("rm", container)
}

// testAction has the action of GitHub download the release, from its folder.
func testAction(t *testing.T, out string) {
	if !has("curl") {
		t.Skip("no curl; install curl")
	}
	at := t.TempDir()
	releases := filepath.Join(at, "releases")
	require.NoError(t, os.Mkdir(releases, 0o755))
	require.NoError(t, os.Symlink(out, filepath.Join(releases, testVersion)))
	folder := filepath.Join(at, "programs")
	action := func() ([]byte, error) {
		c := exec.CommandContext(t.Context(), filepath.Join("..", "..", ".github", "setup-ddkrun"), "install")
		c.Env = append(os.Environ(), "VERSION="+testVersion, "FOLDER="+folder, "RELEASES=file://"+releases,
			"GITHUB_PATH="+filepath.Join(at, "path"))
		return c.CombinedOutput()
	}
	if providers, _ := filepath.Glob("/usr/lib/*/libibverbs/librxe-rdmav*.so"); len(providers) == 0 {
		t.Skip("the action would install a package; install ibverbs-providers")
	}
	b, err := action()
	require.NoError(t, err, "%s", b)
	assert.Equal(t, folder+"\n", read(t, at, "path"))
	assert.Contains(t, execute(t, filepath.Join(folder, "ddkrun"), "--version"), testVersion)

	// A file that was changed is not used.
	require.NoError(t, os.RemoveAll(folder))
	require.NoError(t, os.Remove(filepath.Join(releases, testVersion)))
	require.NoError(t, os.Mkdir(filepath.Join(releases, testVersion), 0o755))
	archive := "ciddk_1.2.3_linux_amd64.tar.gz"
	for name, more := range map[string]string{archive: "x", "SHA256SUMS": ""} {
		require.NoError(t, os.WriteFile(filepath.Join(releases, testVersion, name), []byte(read(t, out, name)+more),
			0o600))
	}
	b, err = action()
	assert.Error(t, err)
	assert.Contains(t, string(b), "the checksum of "+archive+" is wrong")
	assert.NoFileExists(t, filepath.Join(folder, "ddkrun"))
}

func has(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

func read(t *testing.T, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	require.NoError(t, err)
	return string(b)
}

// execute runs a command and returns its output.
func execute(t *testing.T, command ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	b, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	require.NoError(t, err, "%s\n%s", strings.Join(command, " "), b)
	return string(b)
}
