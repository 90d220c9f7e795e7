package main

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		exit(runRole(context.Background(), role, os.Stdout))
	}
	goleak.VerifyTestMain(m)
}

// TestSmallRun runs a plan that is small. All objects exist at the same time, and nothing is left at the end. Its times
// are not judged, since the machine may be busy.
func TestSmallRun(t *testing.T) {
	p := plan{processes: 4, sessions: 14, objects: 403, verbs: 100}
	r, err := p.run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, p.processes, r.Processes)
	assert.Equal(t, p.sessions, r.Sessions)
	assert.Equal(t, p.objects, r.Objects)
	assert.Zero(t, r.Left)
	require.Len(t, r.Times.Verbs, 5)
	assert.Positive(t, r.Times.Echo)
	var b bytes.Buffer
	r.print(&b)
	assert.Contains(t, b.String(), "14 sessions of 4 processes, 403 objects")
}
