package linux

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/internal/testenv"
	"ciddk/test/linux/guest"
)

// lab is the guest for all tests, with the kit's programs.
type lab struct {
	net      *guest.Network
	linux    *guest.Guest
	pingpong string // path of the program
	rping    string
	cmpeer   string
	perftest string
}

var shared struct {
	sync.Mutex
	lab *lab
	err error
	dir string
}

// patience bounds a wait for the guest. A processor without virtualization emulates it, a hundred times as slowly.
const patience = 5 * testenv.Patience

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(cleaner{m})
}

// cleaner closes the lab after the tests, before the leak check.
type cleaner struct{ m *testing.M }

func (c cleaner) Run() int {
	code := c.m.Run()
	if shared.lab != nil {
		if err := shared.lab.net.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if shared.dir != "" {
		if err := os.RemoveAll(shared.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// useLab returns the lab. The first call boots the guest. It skips the test with the reason if there is no guest.
func useLab(t *testing.T) *lab {
	t.Helper()
	testenv.Linux(t, guest.Available())
	shared.Lock()
	defer shared.Unlock()
	if shared.lab == nil && shared.err == nil {
		shared.lab, shared.err = newLab()
	}
	require.NoError(t, shared.err)
	return shared.lab
}

// newLab creates a network with an MTU for path MTUs up to 4096.
func newLab() (l *lab, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l = &lab{}
	if shared.dir, err = os.MkdirTemp("", "ciddk-linux-"); err != nil {
		return nil, err
	}
	l.pingpong, l.rping, l.cmpeer = filepath.Join(shared.dir, "pingpong"), filepath.Join(shared.dir, "rping"),
		filepath.Join(shared.dir, "cmpeer")
	l.perftest = filepath.Join(shared.dir, "perftest")
	c := exec.CommandContext(ctx, "go", "build", "-o", shared.dir, "ciddk/examples/pingpong", "ciddk/examples/rping",
		"ciddk/examples/perftest", "ciddk/test/linux/cmpeer", "ciddk/cmd/"+certifier)
	nic := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(shared.dir, nicRPing), "-tags", "nic",
		"ciddk/examples/rping")
	tests := exec.CommandContext(ctx, "go", "test", "-c", "-o", filepath.Join(shared.dir, nicTests), "ciddk/kernelcm")
	for _, c := range []*exec.Cmd{c, nic, tests} {
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building our programs: %w: %s", err, out)
		}
	}
	if l.net, err = guest.NewNetwork(ctx, guest.NetworkConfig{MTU: 9000}); err != nil {
		return nil, err
	}
	programs := append(extraPrograms(), "busybox")
	for _, name := range []string{nicRPing, nicTests, certifier} {
		programs = append(programs, filepath.Join(shared.dir, name))
	}
	l.linux, err = l.net.Boot(ctx, guest.Config{MemoryMB: 1024, Programs: programs, Modules: []string{"veth"},
		Files: map[string]string{expectations: "testdata/certify.json"}})
	if err != nil {
		_ = l.net.Close() // the first error says more
		return nil, err
	}
	return l, nil
}

// extraPrograms returns the optional programs for the guest that this machine has.
func extraPrograms() []string {
	if missingPerftest() != nil {
		return nil
	}
	return perftestPrograms()
}
