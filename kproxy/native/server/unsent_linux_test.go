package server_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/clock"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
)

// closedPD answers CreateCQ with a descriptor that it has closed.
type closedPD struct {
	ciwrap.PD
	t *testing.T
}

func (p closedPD) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	f, err := os.Open(os.DevNull)
	require.NoError(p.t, err)
	require.NoError(p.t, f.Close())
	user := c.User
	q, err := p.PD.CreateCQ(c)
	if user != nil {
		user.Status, user.OutFiles = 0, []*os.File{f}
	}
	return q, err
}

// TestReplyThatCannotBeSent has a driver whose descriptors are closed. The verb fails and leaves no object, and the
// connection works.
func TestReplyThatCannotBeSent(t *testing.T) {
	layer := ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD { return closedPD{ciwrap.PD{PD: p}, t} }}
	r := newRigOf(t, kproxy.Config{}, clock.Real(), layer.Wrap)
	c := r.client()
	var created schema.Created
	require.NoError(t, c.do(schema.CmdCreateEventQueue, &schema.CreateEventQueue{}, &created))
	open := &schema.OpenCA{GUID: r.hca.Info().GUID, Async: created.Handle}
	require.NoError(t, c.do(schema.CmdOpenCA, open, &created))
	require.NoError(t, c.do(schema.CmdAllocatePD, &schema.AllocatePD{CA: created.Handle}, &created))
	create := &schema.CreateCQ{PD: created.Handle, Size: 4, User: schema.UserBuffer{Present: true}}
	err := c.do(schema.CmdCreateCQ, create, &schema.CreateCQReply{})
	require.ErrorIs(t, err, ci.UnknownError)
	assert.ErrorContains(t, err, "closed file")
	assert.Zero(t, r.live()["CQ"])
	assert.Zero(t, r.core.Load().Objects["cq"])
	require.NoError(t, c.do(schema.CmdListHCAs, &schema.None{}, &schema.ListHCAsReply{}))
}
