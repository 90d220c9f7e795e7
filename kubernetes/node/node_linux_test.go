package node

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
)

// open opens a Node whose daemons end at once.
func open(dir string, log io.Writer) (*Node, error) {
	cdi := filepath.Join(dir, "cdi")
	return Open(Config{Dir: filepath.Join(dir, "state"), CDI: cdi, Self: "/bin/false", DDKD: "/bin/false",
		Run: "/bin/false", Log: slog.New(slog.NewTextHandler(log, nil))})
}

// shortDir returns a directory whose path is short enough for a socket.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "ddk")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// TestHostile sends the node's part what no client sends. It goes on, and claims are as before.
func TestHostile(t *testing.T) {
	dir := shortDir(t)
	log := new(testenv.Output)
	n, err := open(dir, log)
	require.NoError(t, err)
	_, err = open(dir, log)
	require.ErrorContains(t, err, "belongs to another process")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error)
	require.NoError(t, n.Prepare(Claim{ID: "a", Adapters: []string{"address=192.0.2.1"}}))
	go func() { served <- n.Serve(ctx) }()
	c := Client{Dir: filepath.Join(dir, "state")}
	<-log.Seen("msg=ready")
	file, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer file.Close()
	for _, x := range []struct {
		request request
		files   []*os.File
		want    string
	}{
		{request{Op: "nonsense"}, nil, "no operation"},
		{request{Op: opAttach, Claim: Claim{ID: "a"}}, nil, "with 0 descriptors"},
		{request{Op: opAttach, Claim: Claim{ID: "a"}}, []*os.File{file, file}, "no namespace"},
		{request{Op: opAttach, Claim: Claim{ID: "a"}}, []*os.File{file, file, file, file}, "with 4 descriptors"},
		{request{Op: opPrepare, Claim: Claim{ID: "b", Adapters: []string{"a=b"}}}, []*os.File{file}, "with 1 desc"},
		{request{Op: opPrepare, Claim: Claim{ID: "b"}}, nil, "0 adapters: want 1 to 16"},
		{request{Op: opPrepare, Claim: Claim{ID: "b", Adapters: []string{"a=b\nc"}}}, nil, "want KEY=VALUE"},
		{request{Op: opPrepare, Claim: Claim{ID: "../b", Adapters: []string{"a=b"}}}, nil, "want an ID"},
		{request{Op: opPrepare, Claim: Claim{ID: strings.Repeat("b", 64), Adapters: []string{"a=b"}}}, nil, "an ID"},
		{request{Op: opPrepare, Claim: Claim{ID: "b", Adapters: []string{"a=b"}, DeviceName: "x/y"}}, nil, "name"},
		{request{Op: opUnprepare, Claim: Claim{ID: "../../x"}}, nil, ""}, // there is none
	} {
		err := c.call(x.request, x.files...)
		if x.want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, x.want)
		}
	}
	for _, text := range []string{"", "{", strings.Repeat(" ", maxMessage+1)} {
		conn, err := net.DialUnix(network, nil, &net.UnixAddr{Name: socketPath(c.Dir), Net: network})
		require.NoError(t, err)
		_, err = conn.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	assert.Equal(t, []Claim{{ID: "a", Adapters: []string{"address=192.0.2.1"}}}, n.Claims())
	own, err := os.Open("/proc/self/ns/net")
	require.NoError(t, err)
	defer own.Close()
	assert.ErrorContains(t, n.Attach("a", own, file), "ended at once")
	stop()
	require.NoError(t, <-served)
}

// TestRestore opens directories in which another program, or an interrupted one, has left files.
func TestRestore(t *testing.T) {
	for name, x := range map[string]struct {
		files map[string]string // below state
		want  int               // claims
	}{
		"a claim":              {map[string]string{"claims/a/claim.json": `{"id":"a","adapters":["x=y"]}`}, 1},
		"an interrupted claim": {map[string]string{"claims/a/claim.json.tmp": `{"id":`, "claims/a/pod/run/x": ""}, 0},
		"half a claim":         {map[string]string{"claims/a/claim.json": `{"id":"a"`}, 0},
		"of another name":      {map[string]string{"claims/b/claim.json": `{"id":"a","adapters":["x=y"]}`}, 0},
		"a bad claim":          {map[string]string{"claims/a/claim.json": `{"id":"a","adapters":[]}`}, 0},
		"a stale CDI device":   {map[string]string{"../cdi/" + specName("b") + ".yaml": ""}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := shortDir(t)
			for file, text := range x.files {
				path := filepath.Join(dir, "state", file)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}
			n, err := open(dir, io.Discard)
			require.NoError(t, err)
			assert.Len(t, n.Claims(), x.want)
			for _, pattern := range []string{"state/claims/*", "cdi/*"} {
				found, err := filepath.Glob(filepath.Join(dir, pattern))
				require.NoError(t, err)
				assert.Len(t, found, x.want, pattern)
			}
			require.NoError(t, n.Close())
		})
	}
	dir := shortDir(t)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "state"), 0o700))
	require.NoError(t, os.Chmod(filepath.Join(dir, "state"), 0o777))
	_, err := open(dir, io.Discard)
	assert.ErrorContains(t, err, "others can write to it")
}
