package main

import (
	"fmt"
	"strings"

	"ciddk/ci"
)

// A transition is one row of the Modify table: the required and the optional attributes, per service. [IBTA volume 1,
// 11.2.5.2]
type transition struct {
	from, to         ci.QPState
	rc, uc, ud, spec fields
	note             string
}

type fields struct{ required, optional ci.QPField }

// Sets of attributes that several transitions share.
const (
	either      = ci.QPFieldAccess | ci.QPFieldAlternate // both connected services
	datagramOpt = ci.QPFieldQKey
	rtsCommon   = ci.QPFieldCurrentState
)

// transitions is the state machine. Any state to Reset and any state to Error take no attributes and are not listed.
var transitions = []transition{
	{from: ci.QPReset, to: ci.QPInit,
		rc: fields{ci.QPFieldsInit, 0}, uc: fields{ci.QPFieldsInit, 0},
		ud: fields{ci.QPFieldsUDInit, 0}, spec: fields{ci.QPFieldsSpecial, ci.QPFieldPort},
		note: "a special QP's port is the one it was made for; another is `InvalidPort`; QP0 takes a P_Key index and " +
			"does not use it"},
	{from: ci.QPInit, to: ci.QPInit,
		rc:   fields{ci.QPFieldState, ci.QPFieldsInit &^ ci.QPFieldState},
		uc:   fields{ci.QPFieldState, ci.QPFieldsInit &^ ci.QPFieldState},
		ud:   fields{ci.QPFieldState, ci.QPFieldsUDInit &^ ci.QPFieldState},
		spec: fields{ci.QPFieldState, ci.QPFieldPKeyIndex | ci.QPFieldQKey},
		note: "also as a Modify without QPFieldState"},
	{from: ci.QPInit, to: ci.QPRTR,
		rc:   fields{ci.QPFieldsRTR, either | ci.QPFieldPKeyIndex},
		uc:   fields{ci.QPFieldsUCRTR, either | ci.QPFieldPKeyIndex},
		ud:   fields{ci.QPFieldsUDRTR, ci.QPFieldPKeyIndex | datagramOpt},
		spec: fields{ci.QPFieldsUDRTR, ci.QPFieldPKeyIndex | datagramOpt}},
	{from: ci.QPRTR, to: ci.QPRTS,
		rc: fields{ci.QPFieldsRTS, rtsCommon | either | ci.QPFieldMinRNRTimer | ci.QPFieldAPM},

		uc: fields{ci.QPFieldsUCRTS, rtsCommon | either | ci.QPFieldAPM},
		ud: fields{ci.QPFieldsUDRTS, rtsCommon | datagramOpt}, spec: fields{ci.QPFieldsUDRTS, rtsCommon | datagramOpt}},
	{from: ci.QPRTS, to: ci.QPRTS,
		rc: fields{ci.QPFieldState, rtsCommon | either | ci.QPFieldMinRNRTimer | ci.QPFieldAPM},

		uc: fields{ci.QPFieldState, rtsCommon | either | ci.QPFieldAPM},
		ud: fields{ci.QPFieldState, rtsCommon | datagramOpt}, spec: fields{ci.QPFieldState, rtsCommon | datagramOpt},
		note: "also as a Modify without QPFieldState"},
	{from: ci.QPRTS, to: ci.QPSQD,
		rc: fields{ci.QPFieldState, ci.QPFieldSQDEvent}, uc: fields{ci.QPFieldState, ci.QPFieldSQDEvent},
		ud: fields{ci.QPFieldState, ci.QPFieldSQDEvent}, spec: fields{ci.QPFieldState, ci.QPFieldSQDEvent},
		note: "Query answers SQD draining until what had been started is done, then SQD; EventSQDrained marks the " +
			"change when asked for"},
	{from: ci.QPSQD, to: ci.QPSQD,
		rc: fields{ci.QPFieldState,
			either | ci.QPFieldPKeyIndex | ci.QPFieldPort | ci.QPFieldPrimary | ci.QPFieldAckTimeout |
				ci.QPFieldRetryCount | ci.QPFieldRNRRetry | ci.QPFieldMinRNRTimer | ci.QPFieldInitDepth |
				ci.QPFieldRespRes | ci.QPFieldAPM},
		uc: fields{ci.QPFieldState,
			either | ci.QPFieldPKeyIndex | ci.QPFieldPort | ci.QPFieldPrimary | ci.QPFieldAPM},
		ud:   fields{ci.QPFieldState, ci.QPFieldPKeyIndex | datagramOpt},
		spec: fields{ci.QPFieldState, ci.QPFieldPKeyIndex | datagramOpt},
		note: "only once drained; the port only with CapChangePrimaryPort"},
	{from: ci.QPSQD, to: ci.QPRTS,
		rc: fields{ci.QPFieldState,
			rtsCommon | either | ci.QPFieldPKeyIndex | ci.QPFieldPort | ci.QPFieldPrimary | ci.QPFieldAckTimeout |
				ci.QPFieldRetryCount | ci.QPFieldRNRRetry | ci.QPFieldMinRNRTimer | ci.QPFieldInitDepth |
				ci.QPFieldRespRes | ci.QPFieldAPM},

		uc: fields{ci.QPFieldState,
			rtsCommon | either | ci.QPFieldPKeyIndex | ci.QPFieldPort | ci.QPFieldPrimary | ci.QPFieldAPM},
		ud:   fields{ci.QPFieldState, rtsCommon | ci.QPFieldPKeyIndex | datagramOpt},
		spec: fields{ci.QPFieldState, rtsCommon | ci.QPFieldPKeyIndex | datagramOpt},
		note: "with attributes only once drained; the port only with CapChangePrimaryPort"},
	{from: ci.QPSQError, to: ci.QPRTS,
		rc: fields{}, uc: fields{ci.QPFieldState, rtsCommon | ci.QPFieldAccess},
		ud: fields{ci.QPFieldState, rtsCommon | datagramOpt}, spec: fields{ci.QPFieldState, rtsCommon | datagramOpt},
		note: "an RC QP is never in SQError: its send errors lead to Error"},
}

var fieldNames = []string{"State", "CurrentState", "SQDEvent", "Access", "PKeyIndex", "Port", "QKey", "Primary", "MTU",
	"AckTimeout", "RetryCount",
	"RNRRetry", "MinRNRTimer", "RQPSN", "SQPSN", "InitDepth", "RespRes", "DestNum", "Alternate", "APM",
	"SendDepth", "RecvDepth"}

func fieldList(f ci.QPField) string {
	var l []string
	for i, n := range fieldNames {
		if f&(1<<i) != 0 && n != "State" {
			l = append(l, n)
		}
	}
	if len(l) == 0 {
		return "–"
	}
	return strings.Join(l, ", ")
}

func transitionTables() string {
	var b strings.Builder
	for _, t := range transitions {
		fmt.Fprintf(&b, "\n### %s to %s\n\n", t.from, t.to)
		if t.note != "" {
			fmt.Fprintf(&b, "Note: %s.\n\n", t.note)
		}
		b.WriteString("| service | required | optional |\n|---|---|---|\n")
		for _, s := range []struct {
			name string
			f    fields
		}{{"RC", t.rc}, {"UC", t.uc}, {"UD", t.ud}, {"QP0, QP1", t.spec}} {
			if s.f == (fields{}) {
				fmt.Fprintf(&b, "| %s | no such transition | |\n", s.name)
				continue
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", s.name, fieldList(s.f.required), fieldList(s.f.optional))
		}
	}
	b.WriteString("\n")
	return b.String()
}
