package mads_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/mads"
	"ciddk/mad"
)

const vendor = mad.Class(0x09)

// echo responds to every request of class vendor at n.
func echo(t testing.TB, n *node) mads.Agent {
	var a mads.Agent
	a = n.agent(mads.AgentConfig{Name: "echo", Class: vendor, Version: 1, Methods: []mad.Method{mad.Get, mad.Set},
		OnReceive: func(r *mads.Received) {
			r.MAD[3] |= byte(mad.ResponseMask)
			assert.NoError(t, a.Send(&mads.Message{To: r.From, MAD: r.MAD}))
		}})
	return a
}

func TestSendReceive(t *testing.T) {
	pair(t, func(t *testing.T, a, b *node) {
		to := b.agent(mads.AgentConfig{Class: mad.ClassCM, Version: 2, Methods: []mad.Method{mad.Send}})
		from := a.agent(mads.AgentConfig{Class: mad.ClassCM, Version: 2, Methods: []mad.Method{mad.Send}})
		m := mads.Message{To: b.address(), MAD: request(mad.ClassCM, 2, mad.Send, 0x1122334455667788)}
		m.MAD[255] = 7
		require.NoError(t, from.Send(&m))
		r, err := to.Recv(soon(t))
		require.NoError(t, err)
		assert.Equal(t, m.MAD, r.MAD)
		assert.Equal(t, uint64(0x1122334455667788), r.Header().TID)
		assert.Equal(t, b.port(), r.Port)
		// The response goes to the source of the request.
		m.MAD[255] = 8
		require.NoError(t, to.Send(&mads.Message{To: r.From, MAD: m.MAD}))
		r, err = from.Recv(soon(t))
		require.NoError(t, err)
		assert.Equal(t, m.MAD, r.MAD)
	})
}

func TestDo(t *testing.T) {
	pair(t, func(t *testing.T, a, b *node) {
		echo(t, b)
		client := a.agent(mads.AgentConfig{Name: "client"})
		for i := range 200 {
			m := mads.Message{To: b.address(), MAD: request(vendor, 1, mad.Get, 42), Timeout: 10 * time.Second}
			m.MAD[200] = byte(i)
			r, err := client.Do(soon(t), &m)
			require.NoError(t, err)
			m.MAD[3] = byte(mad.GetResp)
			require.Equal(t, m.MAD, r.MAD)
		}
	})
}
