package verbs

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/internal/verbsmatrix"
	"ciddk/test/linux/guest"
)

// softRoCE is a guest whose kernel has a Soft-RoCE device, and a daemon on the same network.
type softRoCE struct {
	t     *testing.T
	rig   *rig
	net   *guest.Network
	linux *guest.Guest
}

// newSoftRoCE returns a guest with the programs of cells, and a daemon whose adapter has settings.
func newSoftRoCE(t *testing.T, list []cell, settings string) *softRoCE {
	testenv.Linux(t, guest.Available())
	if skip != "" {
		t.Skip(skip)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s := &softRoCE{t: t}
	var err error
	s.net, err = guest.NewNetwork(t.Context(), guest.NetworkConfig{MTU: 9000})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.net.Close()) }) // it ends the daemon, too
	s.linux, err = s.net.Boot(ctx, guest.Config{Programs: programsOf(list)})
	require.NoError(t, err)
	dir := t.TempDir()
	s.rig = &rig{t: t, socket: filepath.Join(dir, "s")}
	_, err = s.net.Start(t.Context(), ddkrun, "-daemon", "serve", "--socket", s.rig.socket, "--adapter",
		settings+"address="+s.net.Addr4(guest.Host).String())
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(s.rig.status().Adapters) == 1 }, patience, 5*time.Millisecond)
	return s
}

// ours starts a program of the host with ddkrun.
func (s *softRoCE) ours(ctx context.Context, args ...string) *guest.Process {
	dir := filepath.Dir(s.rig.socket)
	p, err := s.net.Start(ctx, append([]string{"env", "DDKD_SOCKET=" + s.rig.socket, "XDG_RUNTIME_DIR=" + dir, ddkrun},
		args...)...)
	require.NoError(s.t, err)
	return p
}

// theirs starts a program in the guest.
func (s *softRoCE) theirs(ctx context.Context, args ...string) *guest.Process {
	p, err := s.linux.Start(ctx, args...)
	require.NoError(s.t, err)
	return p
}

// serves reports whether a server of librdmacm listens.
func (s *softRoCE) serves(ctx context.Context, isLinux bool) bool {
	if !isLinux {
		return s.rig.isServed()
	}
	r, err := s.linux.Run(ctx, "rdma", "resource", "show", "cm_id")
	return err == nil && strings.Contains(r.Stdout, "LISTEN")
}

// programsOf returns the programs of cells.
func programsOf(list []cell) []string {
	var names []string
	for _, c := range list {
		server, client := c.Lines("")
		names = append(names, strings.Fields(server)[0], strings.Fields(client)[0])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// tcpPort is the default port of the ping-pongs and of perftest.
const tcpPort = 18515

// run runs the server on Linux and the client on ours, or the other way round, again if the client was early. It
// returns the client's output.
func (s *softRoCE) run(c cell, linuxServes bool) string {
	for begin := time.Now(); ; {
		server, client, err := s.runOnce(c, linuxServes)
		out := client.Stdout + client.Stderr
		if client.Code != 0 && wasEarly(out) && time.Since(begin) < patience {
			continue
		}
		require.NoError(s.t, err, "client: %+v\nserver: %+v", client, server)
		if !hasLostChannel(out) {
			require.Zero(s.t, client.Code, "client: %+v\nserver: %+v", client, server)
		}
		if !c.IsEndless && !hasLostChannel(server.Stdout+server.Stderr) {
			require.Zero(s.t, server.Code, "client: %+v\nserver: %+v", client, server)
		}
		return client.Stdout
	}
}

// line returns the words of a command line, with the GID of a program that exchanges its QPs over TCP.
func (s *softRoCE) line(c cell, text string, isLinux bool) []string {
	line := strings.Fields(text)
	switch {
	case c.Client != "":
		return line
	case !isLinux:
		return slices.Concat(line[:1], gidOption(line[0]), line[1:])
	}
	option := "-g"
	if strings.HasPrefix(line[0], "ib_") {
		option = "-x"
	}
	index := s.linux.GIDIndex(s.net.Addr4(s.linux.Index()))
	return slices.Concat(line[:1], []string{"-d", guest.Device, option, strconv.Itoa(index)}, line[1:])
}

func (s *softRoCE) runOnce(c cell, linuxServes bool) (server, client guest.Result, err error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	start, other, at := s.theirs, s.ours, s.net.Addr4(s.linux.Index())
	if !linuxServes {
		start, other, at = s.ours, s.theirs, s.net.Addr4(guest.Host)
	}
	first, second := c.Lines(at.String())
	serving := start(ctx, s.line(c, first, linuxServes)...)
	switch {
	case c.Client != "":
		require.Eventually(s.t, func() bool { return s.serves(ctx, linuxServes) }, patience, 5*time.Millisecond)
	case linuxServes:
		require.NoError(s.t, s.linux.WaitListen(ctx, tcpPort))
	default:
		require.NoError(s.t, s.net.WaitListen(ctx, tcpPort))
	}
	client, err = other(ctx, s.line(c, second, !linuxServes)...).Wait()
	if err != nil || c.IsEndless || client.Code != 0 && !hasLostChannel(client.Stdout+client.Stderr) {
		cancel() // the server would wait
	}
	server, serverErr := serving.Wait()
	if err == nil && client.Code == 0 && !c.IsEndless {
		err = serverErr
	}
	return server, client, err
}

// TestSoftRoCE runs the programs of the matrix with ddkrun against the same programs on Linux's own Soft-RoCE, in both
// roles, also with an adapter that impairs packets.
func TestSoftRoCE(t *testing.T) {
	const parts = 30
	for condition, settings := range map[string]string{"": "", verbsmatrix.Loss: "impair=1%,"} {
		list := cells(t, func(x verbsmatrix.Situation) bool {
			return x == verbsmatrix.Situation{Where: verbsmatrix.Linux, Condition: condition}
		})
		list = testenv.Sample(t, list, parts)
		if condition != "" && !testenv.Whole() {
			continue
		}
		s := newSoftRoCE(t, list, settings)
		for _, c := range list {
			for role, linuxServes := range map[string]bool{"linux is the server": true, "linux is the client": false} {
				t.Run(c.name()+","+role, func(t *testing.T) {
					run := *s
					run.t = t
					assert.Contains(t, run.run(c, linuxServes), c.Want)
				})
			}
		}
	}
}
