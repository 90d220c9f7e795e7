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

// A failingDevice is a device whose firmware fails one command.
type failingDevice struct {
	*soft.Device
	on string
}

var errFirmware = errors.New("no reply from the firmware")

func (d *failingDevice) CreateCQ(size int) (rchca.CQN, error) {
	if d.on == "CreateCQ" {
		return 0, errFirmware
	}
	return d.Device.CreateCQ(size)
}

func (d *failingDevice) CreateQP(c rchca.QPConfig) (ci.QPN, error) {
	if d.on == "CreateQP" {
		return 0, errFirmware
	}
	return d.Device.CreateQP(c)
}

func (d *failingDevice) Map(r rchca.Region) (ci.Key, error) {
	if d.on == "Map" {
		return 0, errFirmware
	}
	return d.Device.Map(r)
}

func (d *failingDevice) ModifyQP(n ci.QPN, set ci.QPField, a *ci.QPAttr) error {
	if d.on == "ModifyQP" {
		return errFirmware
	}
	return d.Device.ModifyQP(n, set, a)
}

// A rig is an open adapter with one object of each kind.
type rig struct {
	hca *rchca.HCA
	ca  ci.CA
	pd  ci.PD
	cq  ci.CQ
	qp  ci.QP
}

func open(t *testing.T, dev rchca.Device) *rig {
	t.Helper()
	h, err := rchca.New(dev)
	require.NoError(t, err)
	m := &rig{hca: h}
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

func (r *rig) config() ci.QPCreate {
	return ci.QPCreate{SendCQ: r.cq, RecvCQ: r.cq, QPCaps: ci.QPCaps{SendDepth: 8, RecvDepth: 8,
		SendSGE: 1, RecvSGE: 1}}
}

// TestRollBack fails commands of the firmware, which the certifier cannot do. The verb fails with Timeout and changes
// nothing.
func TestRollBack(t *testing.T) {
	dev := &failingDevice{Device: new(soft.Fabric).New(1)}
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
		"CreateSRQ": func() error { // srq.go
			_, err := m.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 1}})
			return err
		},
		"CreateMW": func() error { _, err := m.pd.CreateMW(ci.MWCreate{Type: ci.MWType1}); return err }, // mw.go
		"SetLimit": func() error { // srq.go
			_, err := m.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 1}})
			return err
		},
	} {
		dev.on = on
		err := verb()
		assert.ErrorIs(t, err, ci.Timeout, on)
		assert.ErrorIs(t, err, errFirmware, on)
		assert.Equal(t, before, m.hca.Live(), on)
	}
	dev.on = ""
	a, err := m.qp.Query()
	require.NoError(t, err)
	assert.Equal(t, ci.QPReset, a.State)
	assert.Zero(t, a.Port)
}

// TestDataPathAllocations checks that the data path does not allocate, also when it fails.
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
