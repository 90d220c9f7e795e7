package verbs

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/test/linux/guest"
)

// softRoCE is a guest whose kernel has a Soft-RoCE device, and a daemon on the same network.
type softRoCE struct {
	t     *testing.T
	rig   *rig
	net   *guest.Network
	linux *guest.Guest
}

func newSoftRoCE(t *testing.T) *softRoCE {
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
	s.linux, err = s.net.Boot(ctx, guest.Config{Programs: []string{"ib_send_bw", "ib_write_lat", "ucmatose"}})
	require.NoError(t, err)
	dir := t.TempDir()
	s.rig = &rig{t: t, socket: filepath.Join(dir, "s")}
	_, err = s.net.Start(t.Context(), ddkrun, "-daemon", "serve", "--socket", s.rig.socket, "--adapter",
		"address="+s.net.Addr4(guest.Host).String())
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

// exchange is a run of a program on both sides.
type exchange struct {
	program, server, client string // the program and its arguments; %s in those of librdmacm is the server's address
	want                    string
}

// usesCM reports whether the program connects by librdmacm. The others exchange their QPs over TCP.
func (x *exchange) usesCM() bool { return x.server != "" }

// tcpPort is the default port of the ping-pongs and of perftest.
const tcpPort = 18515

// run runs the server on Linux and the client on ours, or the other way round. It returns the client's output.
func (s *softRoCE) run(x exchange, linuxServes bool) string {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	index := s.linux.GIDIndex(s.net.Addr4(s.linux.Index()))
	gidOption := "-g"
	if strings.HasPrefix(x.program, "ib_") {
		gidOption = "-x"
	}
	server, client, at := s.theirs, s.ours, s.net.Addr4(s.linux.Index())
	if !linuxServes {
		server, client, at = s.ours, s.theirs, s.net.Addr4(guest.Host)
	}
	args := strings.Fields(x.program)
	options := func(isLinux bool, more string) []string {
		list := append(args[:len(args):len(args)], strings.Fields(strings.ReplaceAll(more, "%s", at.String()))...)
		switch {
		case x.usesCM():
		case isLinux:
			list = append(list, "-d", guest.Device, gidOption, strconv.Itoa(index))
		default:
			list = append(list, gidOption, "0")
		}
		return list
	}
	serving := server(ctx, options(linuxServes, x.server)...)
	switch {
	case x.usesCM():
		require.Eventually(s.t, func() bool { return s.serves(ctx, linuxServes) }, patience, 5*time.Millisecond)
	case linuxServes:
		require.NoError(s.t, s.linux.WaitListen(ctx, tcpPort))
	default:
		require.NoError(s.t, s.net.WaitListen(ctx, tcpPort))
	}
	clientArgs := options(!linuxServes, x.client)
	if !x.usesCM() {
		clientArgs = append(clientArgs, at.String())
	}
	c, err := client(ctx, clientArgs...).Wait()
	if err != nil || c.Code != 0 && !hasLostChannel(c.Stdout+c.Stderr) {
		cancel() // the server would wait
	}
	r, serverErr := serving.Wait()
	require.NoError(s.t, err, "server: %+v", r)
	require.NoError(s.t, serverErr, "client: %+v", c)
	if !hasLostChannel(c.Stdout + c.Stderr) {
		require.Zero(s.t, c.Code, "client: %+v\nserver: %+v", c, r)
	}
	if !hasLostChannel(r.Stdout + r.Stderr) {
		require.Zero(s.t, r.Code, "client: %+v\nserver: %+v", c, r)
	}
	return c.Stdout
}

// TestSoftRoCE runs programs with ddkrun against the same programs on Linux's own Soft-RoCE, in both roles.
func TestSoftRoCE(t *testing.T) {
	testenv.OneOf(t, 1, 4)
	s := newSoftRoCE(t)
	for _, x := range []exchange{
		{program: "ibv_rc_pingpong -n 50", want: "50 iters in"},
		{program: "rping -v -C 5", server: "-s -a %s", client: "-c -a %s", want: "rdma-ping-4: EFGH"},
		{program: "ib_send_bw -F -n 20 -s 8192", want: "#bytes"},
		{program: "ucmatose -c 2 -C 5", server: "-b %s", client: "-s %s", want: "return status 0"},
		{program: "ib_write_lat -F -n 20", want: "#bytes"},
	} {
		for role, linuxServes := range map[string]bool{"linux is the server": true, "linux is the client": false} {
			t.Run(x.program+","+role, func(t *testing.T) {
				run := *s
				run.t = t
				assert.Contains(t, run.run(x, linuxServes), x.want)
			})
		}
	}
}
