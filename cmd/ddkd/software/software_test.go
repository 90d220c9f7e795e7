package software

import (
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/ci"
	"ciddk/cmd/ddkd/cli"
	"ciddk/fabric"
	"ciddk/fabric/join"
	"ciddk/fabric/topology"
	"ciddk/hca/reference"
	"ciddk/internal/rings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Settings that a link does not have, and those that are missing, are errors.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		settings cli.Settings
		want     string
	}{
		{cli.Settings{"link": "rope"}, "there are udp, network"},
		{cli.Settings{}, "address or interface is required"},
		{cli.Settings{"address": "10.0.0.1", "node": "h1"}, "fabric and node are for link=fabric"},
		{cli.Settings{"link": "fabric"}, "node is required"},
		{cli.Settings{"link": "fabric", "node": "h1:x"}, "want a port of 1 to 255"},
		{cli.Settings{"link": "fabric", "node": "h1", "address": "10.0.0.1"}, "address is not for link=fabric"},
		{cli.Settings{"link": "fabric", "node": "h1:2"}, ""},
		{cli.Settings{"address": "10.0.0.1"}, ""},
		{cli.Settings{"address": "10.0.0.1", "loopback": "wire"}, ""},
		{cli.Settings{"interface": "lo", "loopback": "direct"}, ""},
		{cli.Settings{"address": "10.0.0.1", "loopback": "no"}, `loopback "no": want direct or wire`},
		{cli.Settings{"link": "network", "address": "10.0.0.1", "loopback": "wire"}, "loopback is for link=udp"},
		{cli.Settings{"address": "10.0.0.1", "gids": "mlx5"}, ""},
		{cli.Settings{"address": "10.0.0.1", "gids": "mlx4"}, `gids "mlx4": want rxe or mlx5`},
		{cli.Settings{"link": "fabric", "node": "h1", "gids": "rxe"}, "gids is not for link=fabric"},
		{cli.Settings{"address": "10.0.0.1+fd00::1", "link": "network"}, ""},
		{cli.Settings{"address": "10.0.0.1+"}, "address: "},
		{cli.Settings{"address": "10.0.0.1", "impair": "1%"}, ""},
		{cli.Settings{"address": "10.0.0.1", "impair": "0.02"}, ""},
		{cli.Settings{"address": "10.0.0.1", "impair": "11%"}, "want a share from 0 to 10%"},
		{cli.Settings{"address": "10.0.0.1", "impair": "NaN"}, "want a share"},
		{cli.Settings{"address": "10.0.0.1", "user-memory": "8192", "queue-memory": "1", "user-idle": "1m"}, ""},
		{cli.Settings{"address": "10.0.0.1", "user-memory": "8193"}, "a multiple of 4096 from 8192"},
		{cli.Settings{"address": "10.0.0.1", "user-memory": "4096"}, "a multiple of 4096 from 8192"},
		{cli.Settings{"link": "fabric", "node": "h1", "queue-memory": "4G"}, "want a number of bytes"},
		{cli.Settings{"address": "10.0.0.1", "queue-memory": "-1"}, "want a number of bytes"},
		{cli.Settings{"address": "10.0.0.1", "user-idle": "2m"}, "want a time such as 200us, at most 1m"},
		{cli.Settings{"address": "10.0.0.1", "user-idle": "0s"}, "want a time"},
		{cli.Settings{"address": "10.0.0.1", "cnp-interval": "50us"}, ""},
		{cli.Settings{"address": "10.0.0.1", "cnp-interval": "off"}, ""},
		{cli.Settings{"address": "10.0.0.1", "cnp-interval": "0s"}, "want a time such as 200us, at most 1s, or off"},
		{cli.Settings{"address": "10.0.0.1", "cnp-interval": "2s"}, "or off"},
	} {
		err := Driver().Check(c.settings)
		if c.want == "" {
			assert.NoError(t, err, c.settings)
		} else {
			assert.ErrorContains(t, err, c.want, c.settings)
		}
	}
}

// The port of an adapter is impaired if the settings require it.
func TestImpaired(t *testing.T) {
	for share, want := range map[string]bool{"": false, "0": false, "1%": true} {
		settings := cli.Settings{"link": "network", "address": "10.0.0.1", "impair": share}
		h, err := Driver().Open(t.Context(), settings, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		_, found := h.(*reference.HCA).Counters()["impair_passed"]
		assert.Equal(t, want, found, "%q", share)
		require.NoError(t, h.(*reference.HCA).Close())
	}
}

// An adapter joins a fabric of another process, here over the socket of one in this process.
func TestFabric(t *testing.T) {
	g, err := topology.FatTree{Down: []int{2}, Up: []int{1}}.Generate()
	require.NoError(t, err)
	f, err := fabric.New(g, fabric.Config{})
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Configure())
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	s := join.Serve(f, l, join.Config{})
	defer func() { require.NoError(t, s.Close()) }()
	settings := cli.Settings{"link": "fabric", "fabric": path, "node": "h2"}
	h, err := Driver().Open(t.Context(), settings, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer func() { require.NoError(t, h.(*reference.HCA).Close()) }()
	p, err := f.Port("h2", 0)
	require.NoError(t, err)
	assert.Equal(t, ci.GUID(p.NodeInfo().NodeGUID), h.Info().GUID)
	settings["node"] = "nobody"
	_, err = Driver().Open(t.Context(), settings, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "no node")
}

// noProcess is a process whose memory no queue is in.
type noProcess struct{ ci.Process }

// The memory of queues and the idle time are those of the settings.
func TestUserSettings(t *testing.T) {
	settings := cli.Settings{"link": "network", "address": "10.0.0.1", "user-memory": "12288", "user-idle": "1m",
		"queue-memory": "1234567"}
	opened, err := Driver().Open(t.Context(), settings, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	h := opened.(*reference.HCA)
	_, limit := h.QueueMemory()
	assert.EqualValues(t, 1234567, limit)
	ca, err := h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
	require.NoError(t, err)
	ub := &ci.UserBuffer{Command: rings.UserCommand, Out: make([]byte, 0, rings.UserOpenSize)}
	u, err := ca.OpenUser(noProcess{}, ub)
	require.NoError(t, err)
	var o rings.UserOpen
	require.NoError(t, o.Decode(ub.Out))
	assert.EqualValues(t, 12288, o.Size)
	require.Eventually(t, func() bool { return h.Counters()["user_yields"] > 2000 }, time.Minute, time.Millisecond)
	assert.Zero(t, h.Counters()["user_sleeps"], "by default, the adapter sleeps after about 100 yields")
	require.NoError(t, u.Destroy())
	require.NoError(t, ca.Destroy())
	require.NoError(t, h.Close())
}
