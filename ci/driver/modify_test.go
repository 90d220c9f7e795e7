package driver

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// paths are the transitions from Reset to RTS, with the fields that each service needs.
var paths = map[ci.QPType][3]ci.QPField{
	ci.RC:  {ci.QPFieldsInit, ci.QPFieldsRTR, ci.QPFieldsRTS},
	ci.UC:  {ci.QPFieldsInit, ci.QPFieldsUCRTR, ci.QPFieldsUCRTS},
	ci.UD:  {ci.QPFieldsUDInit, ci.QPFieldsUDRTR, ci.QPFieldsUDRTS},
	ci.QP0: {ci.QPFieldsSpecial, ci.QPFieldsUDRTR, ci.QPFieldsUDRTS},
	ci.QP1: {ci.QPFieldsSpecial | ci.QPFieldPort, ci.QPFieldsUDRTR, ci.QPFieldsUDRTS}, // it may repeat the port
}

// TestPaths takes each service to RTS, and leaves out each field that a transition needs.
func TestPaths(t *testing.T) {
	for service, path := range paths {
		from := ci.QPReset
		for i, to := range []ci.QPState{ci.QPInit, ci.QPRTR, ci.QPRTS} {
			where := fmt.Sprint(service, " to ", to)
			got, err := CheckModify(service, 0, from, path[i], &ci.QPAttr{State: to})
			require.NoError(t, err, where)
			assert.Equal(t, to, got, where)
			for bit := ci.QPFieldState << 1; bit <= ci.QPFieldRecvDepth; bit <<= 1 {
				if path[i]&bit == 0 || bit == ci.QPFieldPort && service == ci.QP1 {
					continue
				}
				got, err = CheckModify(service, 0, from, path[i]&^bit, &ci.QPAttr{State: to})
				assert.ErrorIs(t, err, ci.InvalidParameter, where)
				assert.ErrorContains(t, err, "missing "+fieldNames(bit), where)
				assert.Equal(t, from, got, where)
			}
			from = to
		}
	}
}

// TestCheckModify checks the status of each rule, and which rule comes first if several are broken.
func TestCheckModify(t *testing.T) {
	const (
		state   = ci.QPFieldState
		unknown = ci.QPFieldRecvDepth << 1
		current = ci.QPFieldCurrentState
		depth   = ci.QPFieldSendDepth
		all     = ^ci.Caps(0)
	)
	for _, x := range []struct {
		name     string
		service  ci.QPType
		claims   ci.Caps
		from, to ci.QPState
		set      ci.QPField
		current  ci.QPState
		want     ci.Status
		detail   string
	}{
		{"unknown, no state", ci.RC, all, ci.QPReset, 0, unknown, 0, ci.InvalidParameter, "unknown field"},
		{"unknown, no transition", ci.RC, all, ci.QPInit, ci.QPRTS, state | unknown, 0, ci.InvalidParameter, "unknown"},
		{"nothing", ci.RC, all, ci.QPRTS, 0, 0, 0, ci.Success, ""},
		{"no state in Reset", ci.RC, all, ci.QPReset, 0, ci.QPFieldAccess, 0, ci.InvalidQPState, "in Reset"},
		{"no state in Error", ci.UD, all, ci.QPError, 0, ci.QPFieldQKey, 0, ci.InvalidQPState, "in Error"},
		{"no state in RTR", ci.RC, all, ci.QPRTR, 0, ci.QPFieldAccess, 0, ci.InvalidQPState, "RTR to RTR"},
		{"no transition, no claim", ci.RC, 0, ci.QPInit, ci.QPRTS, state | depth, 0, ci.InvalidQPState, "Init to RTS"},
		{"no such state", ci.RC, all, ci.QPRTS, 77, state, 0, ci.InvalidQPState, "RTS to "},
		{"to SQD draining", ci.RC, all, ci.QPRTS, ci.QPSQDraining, state, 0, ci.InvalidQPState, ""},
		{"SQError of RC", ci.RC, all, ci.QPSQError, ci.QPRTS, state, 0, ci.InvalidQPState, "SQError to RTS"},
		{"SQError of UC", ci.UC, all, ci.QPSQError, ci.QPRTS, state | ci.QPFieldAccess, 0, ci.Success, ""},
		{"SQError of UD", ci.UD, all, ci.QPSQError, ci.QPRTS, state | ci.QPFieldQKey, 0, ci.Success, ""},
		{"to Reset", ci.RC, 0, ci.QPSQDraining, ci.QPReset, state, 0, ci.Success, ""},
		{"to Error", ci.UD, 0, ci.QPReset, ci.QPError, state, 0, ci.Success, ""},
		{"to Error with a field", ci.UD, 0, ci.QPReset, ci.QPError, state | ci.QPFieldQKey, 0, ci.InvalidParameter,
			"Reset to Error takes no QKey"},
		{"no claim of depths, missing", ci.RC, all &^ ci.CapModifyWRDepth, ci.QPInit, ci.QPRTR, state | depth, 0,
			ci.Unsupported, "depths"},
		{"depth", ci.RC, all, ci.QPRTS, ci.QPSQD, state | depth, 0, ci.Success, ""},
		{"depth in Init", ci.RC, all, ci.QPInit, ci.QPInit, state | depth, 0, ci.InvalidParameter, "SendDepth"},
		{"no claim of migration", ci.UC, all &^ ci.CapAPM, ci.QPRTS, 0, ci.QPFieldAPM, 0, ci.Unsupported, "migration"},
		{"migration of UD", ci.UD, all, ci.QPRTS, 0, ci.QPFieldAPM, 0, ci.InvalidParameter, "takes no APM"},
		{"missing and extra", ci.RC, all, ci.QPRTR, ci.QPRTS, ci.QPFieldsRTS&^ci.QPFieldSQPSN | ci.QPFieldMTU, 0,
			ci.InvalidParameter, "missing SQPSN"},
		{"extra", ci.RC, all, ci.QPRTR, ci.QPRTS, ci.QPFieldsRTS | ci.QPFieldMTU, 0, ci.InvalidParameter,
			"RTR to RTS takes no MTU"},
		{"timer of UC", ci.UC, all, ci.QPRTS, 0, ci.QPFieldMinRNRTimer, 0, ci.InvalidParameter, "MinRNRTimer"},
		{"port of QP1", ci.QP1, all, ci.QPInit, ci.QPInit, ci.QPFieldPort, 0, ci.InvalidParameter, "Port"},
		{"no claim of the current state", ci.RC, all &^ ci.CapCurrentQPState, ci.QPRTS, 0, current, ci.QPRTS,
			ci.Unsupported, "current state"},
		{"current state", ci.RC, all, ci.QPRTS, 0, current, ci.QPRTS, ci.Success, ""},
		{"another current state", ci.RC, all, ci.QPRTS, 0, current, ci.QPSQD, ci.InvalidQPState, "in RTS, not in SQD"},
		{"another current state, extra", ci.RC, all, ci.QPRTS, 0, current | ci.QPFieldMTU, ci.QPSQD,
			ci.InvalidParameter, "MTU"},
		{"draining is SQD", ci.RC, all, ci.QPSQDraining, ci.QPRTS, state | current, ci.QPSQD, ci.Success, ""},
		{"draining is draining", ci.RC, all, ci.QPSQDraining, ci.QPRTS, state | current, ci.QPSQDraining, ci.Success,
			""},
		{"drained", ci.RC, all, ci.QPSQD, 0, ci.QPFieldRetryCount, 0, ci.Success, ""},
		{"draining", ci.RC, all, ci.QPSQDraining, 0, ci.QPFieldRetryCount, 0, ci.InvalidQPState, "not drained"},
		{"draining, P_Key of UD", ci.UD, all, ci.QPSQDraining, 0, ci.QPFieldPKeyIndex, 0, ci.InvalidQPState, "drained"},
		{"draining, as in RTS", ci.RC, all, ci.QPSQDraining, 0, ci.QPFieldAccess | ci.QPFieldMinRNRTimer, 0,
			ci.Success, ""},
		{"draining, extra", ci.UC, all, ci.QPSQDraining, 0, ci.QPFieldRetryCount, 0, ci.InvalidParameter, "RetryCount"},
	} {
		t.Run(x.name, func(t *testing.T) {
			a := ci.QPAttr{State: x.to, CurrentState: x.current}
			got, err := CheckModify(x.service, x.claims, x.from, x.set, &a)
			if x.want != ci.Success {
				require.ErrorIs(t, err, x.want)
				assert.ErrorContains(t, err, x.detail)
				assert.Equal(t, x.from, got)
				return
			}
			require.NoError(t, err)
			if x.set&state == 0 {
				x.to = x.from
			}
			if x.to == ci.QPSQDraining {
				x.to = ci.QPSQD
			}
			assert.Equal(t, x.to, got)
		})
	}
}
