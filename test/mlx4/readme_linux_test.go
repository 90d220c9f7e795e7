package mlx4

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/modroot"
	"ciddk/internal/testenv"
	"ciddk/test/linux/guest"
)

// readmeSection is the section of README.md whose commands TestREADME runs.
const readmeSection = "## RDMA in a virtual machine in five minutes"

// readmeBlocks returns the blocks of commands of a section.
func readmeBlocks(text, section string) (blocks [][]string) {
	_, text, _ = strings.Cut(text, "\n"+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	isInside := false
	for line := range strings.Lines(text) {
		command, ok := strings.CutPrefix(line, "    ")
		if ok && !isInside {
			blocks = append(blocks, nil)
		}
		if ok {
			last := len(blocks) - 1
			blocks[last] = append(blocks[last], strings.TrimSpace(command))
		}
		isInside = ok
	}
	return blocks
}

// withoutComment splits a command from its comment.
func withoutComment(line string) (command, comment string) {
	command, comment, _ = strings.Cut(line, "  # ")
	return strings.TrimSpace(command), strings.TrimSpace(comment)
}

func TestREADMEBlocks(t *testing.T) {
	const text = "# Title\n\n## Other\n\n    no\n\n## This\n\nText:\n\n    a -b   # c\n    d\n\nMore.\n\n    e\n\n" +
		"## Last\n\n    no\n"
	assert.Equal(t, [][]string{{"a -b   # c", "d"}, {"e"}}, readmeBlocks(text, "## This"))
	assert.Empty(t, readmeBlocks(text, "## None"))
	command, comment := withoutComment("a -b   # c")
	assert.Equal(t, []string{"a -b", "c"}, []string{command, comment})
	root, err := modroot.Find()
	require.NoError(t, err)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	blocks := readmeBlocks(string(readme), readmeSection)
	require.Len(t, blocks, 2, "commands of the host, and of the virtual machines")
	require.Len(t, blocks[0], 3, "build, serve, qemu")
	require.Len(t, blocks[1], 5, "interface, address, ibv_devinfo, server, client")
}

// A readme runs the commands of the host in a folder of the test.
type readme struct {
	root, dir string
}

// place puts a command's files into the folder of the test.
func (r readme) place(command string) string {
	return strings.NewReplacer("-o ddk-model", "-o "+r.dir+"/ddk-model", "./ddk-model", r.dir+"/ddk-model",
		"/tmp/", r.dir+"/").Replace(command)
}

// shell returns a command of the host, run in the root of the module.
func (r readme) shell(ctx context.Context, command string) *exec.Cmd {
	c := exec.CommandContext(ctx, "sh", "-c", "exec "+r.place(command))
	c.Dir = r.root
	c.Env = append(c.Environ(), "GOFLAGS=-buildvcs=false")
	return c
}

// serve starts the command that serves cards until the test ends, and returns when their sockets exist.
func (r readme) serve(t *testing.T, ctx context.Context, command string) {
	t.Helper()
	line, ok := strings.CutSuffix(command, " &")
	require.True(t, ok, "%s does not run in the background", command)
	var out strings.Builder
	c := r.shell(context.WithoutCancel(ctx), line) // the clean-up ends it, after the guests
	c.Stdout, c.Stderr = &out, &out
	c.WaitDelay = patience
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// The kernel sends the signal when the thread ends that started the process, so that this one must last.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.Start()
		if started <- err; err == nil {
			ended <- c.Wait()
		}
	}()
	require.NoError(t, <-started)
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM) // an error: it has ended, which the next line reports
		assert.NoError(t, <-ended, "%s: %s", line, &out)
	})
	for field := range strings.FieldsSeq(r.place(line)) {
		if !strings.HasPrefix(field, r.dir+"/card") {
			continue
		}
		require.Eventually(t, func() bool {
			_, err := os.Stat(field)
			return err == nil
		}, patience, 10*time.Millisecond, "socket %s", field)
	}
}

// machine returns the options of QEMU that a command prints. Its last line stands for what the user adds.
func (r readme) machine(t *testing.T, ctx context.Context, command string) []string {
	t.Helper()
	out, err := r.shell(ctx, command).Output()
	require.NoError(t, err)
	text, ok := strings.CutSuffix(strings.TrimSpace(string(out)), "… (disk, network, display)")
	require.True(t, ok, "%s", out)
	text, ok = strings.CutPrefix(strings.TrimSuffix(strings.TrimSpace(text), `\`), "qemu-system-x86_64 ")
	require.True(t, ok, "%s", out)
	// The shell splits the line.
	words, err := exec.CommandContext(ctx, "sh", "-c", "printf '%s\\n' "+text).Output()
	require.NoError(t, err)
	args := strings.Split(strings.TrimSpace(string(words)), "\n")
	// The virtual machines of the tests use TCG everywhere, because KVM within another virtual machine may not work.
	kvm := slices.Index(args, "kvm")
	require.Positive(t, kvm)
	require.Equal(t, "-accel", args[kvm-1])
	return slices.Delete(args, kvm-1, kvm+1)
}

// boot boots a virtual machine with the options that ddk-model prints for the cards of the README, and loads the
// drivers, as the udev of a distribution does.
func (r readme) boot(t *testing.T, ctx context.Context, n *guest.Network, command string) *guest.Guest {
	t.Helper()
	c := guestConfig()
	c.Machine = r.machine(t, ctx, command)
	g, err := n.Boot(ctx, c)
	require.NoError(t, err)
	load(t, ctx, g, "mlx4_en", "mlx4_ib")
	return g
}

// guestShell returns the program and arguments that run lines of the README in a guest, whose ls is that of busybox.
func guestShell(lines ...string) []string {
	return shell("ls() { busybox ls \"$@\"; }\n" + strings.Join(lines, "\n"))
}

// TestREADME runs the commands of the README's section about virtual machines.
func TestREADME(t *testing.T) {
	testenv.OnlyWhole(t)
	ctx := needGuests(t, "mlx4")
	root, err := modroot.Find()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	blocks := readmeBlocks(string(text), readmeSection)
	host, inside := blocks[0], blocks[1]
	r := readme{root: root, dir: t.TempDir()}

	out, err := r.shell(ctx, host[0]).CombinedOutput()
	require.NoError(t, err, "%s: %s", host[0], out)
	r.serve(t, ctx, host[1])
	n := newNetwork(t, ctx)
	p := &pair{net: n}
	const first, second = "10.0.0.1", "10.0.0.2"
	for i, addr := range []string{first, second} {
		g := r.boot(t, ctx, n, strings.ReplaceAll(host[2], "card0", []string{"card0", "card1"}[i]))
		p.guests[i] = g
		name, _ := withoutComment(inside[0])
		address, comment := withoutComment(inside[1])
		require.Contains(t, address, first)
		require.Contains(t, comment, second)
		run(t, ctx, g, guestShell(name, strings.ReplaceAll(address, first, addr))...)
	}

	info, _ := withoutComment(inside[2])
	server, comment := withoutComment(inside[3])
	require.Contains(t, comment, "the index of the RoCE v2 GID")
	_, index, ok := strings.Cut(server, " -g ")
	require.True(t, ok, server)
	for i, addr := range []string{first, second} {
		want := regexp.MustCompile(`GID\[\s*` + index + `\]:\s+::ffff:` + addr + `, RoCE v2`)
		var shown string
		require.Eventually(t, func() bool {
			shown = run(t, ctx, p.guests[i], guestShell(info)...)
			return want.MatchString(shown)
		}, patience, poll, "no GID %s of %s: %s", index, addr, shown)
		require.Contains(t, shown, "PORT_ACTIVE")
	}

	client, _ := withoutComment(inside[4])
	require.Contains(t, client, first)
	s, err := p.guests[0].Start(ctx, guestShell(server)...)
	require.NoError(t, err)
	require.NoError(t, p.guests[0].WaitListen(ctx, pingPongPort))
	require.Contains(t, run(t, ctx, p.guests[1], guestShell(client)...), "1000 iters in")
	result, err := s.Wait()
	require.NoError(t, err)
	require.Zero(t, result.Code, result.Stderr)
	require.Contains(t, result.Stdout, "1000 iters in")
	p.requireQuiet(t, ctx)
}
