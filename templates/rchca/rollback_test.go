package rchca_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/templates/rchca"
	"ciddk/templates/rchca/soft"
)

// sick is a device whose firmware refuses one command.
type sick struct {
	*soft.Device
	on string
}

var errSick = errors.New("no answer from the firmware")

func (s *sick) CreateCQ(size int) (rchca.CQN, error) {
	if s.on == "CreateCQ" {
		return 0, errSick
	}
	return s.Device.CreateCQ(size)
}

func (s *sick) CreateQP(c rchca.QPConfig) (ci.QPN, error) {
	if s.on == "CreateQP" {
		return 0, errSick
	}
	return s.Device.CreateQP(c)
}

func (s *sick) Map(r rchca.Region) (ci.Key, error) {
	if s.on == "Map" {
		return 0, errSick
	}
	return s.Device.Map(r)
}

func (s *sick) ModifyQP(n ci.QPN, set ci.QPField, a *ci.QPAttr) error {
	if s.on == "ModifyQP" {
		return errSick
	}
	return s.Device.ModifyQP(n, set, a)
}

// made is an open adapter with one of each.
type made struct {
	hca *rchca.HCA
	ca  ci.CA
	pd  ci.PD
	cq  ci.CQ
	qp  ci.QP
}

func open(t *testing.T, dev rchca.Device) *made {
	t.Helper()
	h, err := rchca.New(dev)
	require.NoError(t, err)
	m := &made{hca: h}
	m.ca, err = h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
	require.NoError(t, err)
	m.pd, err = m.ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	m.cq, err = m.pd.CreateCQ(ci.CQCreate{Size: 64})
	require.NoError(t, err)
	m.qp, err = m.pd.CreateQP(m.config())
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, o := range []ci.Object{m.qp, m.cq, m.pd} {
			require.NoError(t, o.Destroy())
		}
		require.NoError(t, m.ca.Destroy())
		require.NoError(t, h.Close())
		require.NoError(t, h.Close(), "Close is idempotent")
	})
	return m
}

func (m *made) config() ci.QPCreate {
	return ci.QPCreate{SendCQ: m.cq, RecvCQ: m.cq, QPCaps: ci.QPCaps{SendDepth: 8, RecvDepth: 8, SendSGE: 1, RecvSGE: 1}}
}

// What the certifier cannot bring about: the firmware fails a command. The verb says Timeout, and everything is as before.
func TestRollBack(t *testing.T) {
	dev := &sick{Device: new(soft.Fabric).New(1)}
	m := open(t, dev)
	before := m.hca.Live()
	for on, verb := range map[string]func() error{
		"CreateCQ": func() error { _, err := m.pd.CreateCQ(ci.CQCreate{Size: 1}); return err },
		"CreateQP": func() error { _, err := m.pd.CreateQP(m.config()); return err },
		"Map": func() error {
			_, err := m.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 8))})
			return err
		},
		"ModifyQP": func() error { return m.qp.Modify(ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: 1}) },
	} {
		dev.on = on
		err := verb()
		assert.ErrorIs(t, err, ci.Timeout, on)
		assert.ErrorIs(t, err, errSick, on)
		assert.Equal(t, before, m.hca.Live(), on)
	}
	dev.on = ""
	a, err := m.qp.Query()
	require.NoError(t, err)
	assert.Equal(t, ci.QPReset, a.State)
	assert.Zero(t, a.Port)
}

func TestDataPathAllocations(t *testing.T) {
	m := open(t, new(soft.Fabric).New(1))
	require.NoError(t, m.qp.Modify(ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: 1}))
	recv, send, wc := make([]ci.RecvWR, 1), make([]ci.SendWR, 1), make([]ci.WC, 4)
	var refused, full error
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_, full = m.qp.PostRecv(recv)
		_, refused = m.qp.PostSend(send)
		_, _ = m.cq.Poll(wc)
		_ = m.cq.Notify(ci.NotifyNext)
	}))
	assert.ErrorIs(t, refused, ci.InvalidQPState)
	assert.ErrorIs(t, full, ci.InsufficientResources)
}
