package verbs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
)

// waitTime is the time between two looks at a state.
const waitTime = 20 * time.Millisecond

// The data in the memory of the virtual machine.
const dataAddress, dataSize = 16 << 20, 8 << 20

// TestMigration migrates a virtual machine of QEMU to another one by RDMA, and compares their memory.
func TestMigration(t *testing.T) {
	testenv.Long(t)
	const qemu = "qemu-system-x86_64"
	path, err := exec.LookPath(qemu)
	if err != nil {
		t.Skip(err, "(Debian: qemu-system-x86)")
	}
	if out, err := exec.Command("ldd", path).Output(); err != nil || !strings.Contains(string(out), "librdmacm") {
		t.Skip("QEMU is built without librdmacm")
	}
	for _, pinned := range []bool{false, true} {
		t.Run(map[bool]string{false: "chunks", true: "rdma-pin-all"}[pinned], func(t *testing.T) {
			r, dir := newRig(t), t.TempDir()
			data := make([]byte, dataSize)
			source := rand.NewChaCha8([32]byte{1})
			_, _ = source.Read(data) // it has no errors
			image := filepath.Join(dir, "data")
			require.NoError(t, os.WriteFile(image, data, 0o600))
			machine := []string{qemu, "-M", "pc", "-m", "64", "-S", "-display", "none", "-nodefaults"}
			from := r.monitor(dir, "from", append(machine, "-device", fmt.Sprintf("loader,addr=%d,force-raw=on,file=%s",
				dataAddress, image)))
			to := r.monitor(dir, "to", append(machine, "-incoming", "defer"))
			for _, m := range []*monitor{from, to} {
				m.do("migrate-set-capabilities", map[string]any{"capabilities": []any{map[string]any{
					"capability": "rdma-pin-all", "state": pinned}}})
			}
			uri := map[string]any{"uri": "rdma:10.0.0.1:4444"}
			to.do("migrate-incoming", uri)
			from.do("migrate", uri)
			from.await("query-migrate", "completed")
			to.await("query-migrate", "completed")
			moved := to.memory(dir)
			assert.True(t, bytes.Equal(from.memory(dir), moved), "the memory differs")
			assert.True(t, bytes.Equal(data, moved), "the data differ")
		})
	}
}

// A monitor is the connection to QEMU by its protocol QMP.
type monitor struct {
	t       *testing.T
	out     fmt.Stringer // what QEMU has printed
	encoder *json.Encoder
	decoder *json.Decoder
}

// monitor starts QEMU, which is killed at the end of the test.
func (r *rig) monitor(dir, name string, args []string) *monitor {
	path := filepath.Join(dir, name)
	cmd, out := r.command(append(args, "-qmp", "unix:"+path+",server=on,wait=off")...)
	start(r.t, cmd)
	var c net.Conn
	require.Eventually(r.t, func() (ok bool) {
		var err error
		c, err = net.Dial("unix", path)
		return err == nil
	}, patience, waitTime, "%s", out)
	r.t.Cleanup(func() { c.Close() })
	m := &monitor{r.t, out, json.NewEncoder(c), json.NewDecoder(c)}
	var greeting map[string]any
	require.NoError(r.t, m.decoder.Decode(&greeting))
	m.do("qmp_capabilities", nil)
	return m
}

// do executes a command and returns its result.
func (m *monitor) do(command string, arguments map[string]any) map[string]any {
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	require.NoError(m.t, m.encoder.Encode(request), "%s: %s", command, m.out)
	for {
		var reply struct {
			Return map[string]any
			Error  map[string]any
			Event  string
		}
		require.NoError(m.t, m.decoder.Decode(&reply), "%s: %s", command, m.out)
		if reply.Event == "" {
			require.Empty(m.t, reply.Error, command)
			return reply.Return
		}
	}
}

// await executes a command until its status is the wanted one.
func (m *monitor) await(command, want string) {
	require.Eventually(m.t, func() bool {
		status := m.do(command, nil)["status"]
		require.NotEqual(m.t, "failed", status, "%s", m.out)
		return status == want
	}, patience, waitTime, "%s", m.out)
}

// memory returns the part of the machine's memory that had the data at first.
func (m *monitor) memory(dir string) []byte {
	path := filepath.Join(dir, "memory")
	m.do("pmemsave", map[string]any{"val": dataAddress, "size": dataSize, "filename": path})
	b, err := os.ReadFile(path)
	require.NoError(m.t, err)
	return b
}
