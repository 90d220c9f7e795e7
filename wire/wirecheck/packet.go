package wirecheck

import (
	"bytes"

	"ciddk/wire"
)

// Opcode checks BTH.Opcode.
func Opcode(want wire.Opcode) Checker {
	return func(t T, p *wire.Packet) { t.Helper(); equal(t, "opcode", p.BTH.Opcode, want) }
}

// PSN checks BTH.PSN.
func PSN(want uint32) Checker {
	return func(t T, p *wire.Packet) { t.Helper(); equalHex(t, "PSN", p.BTH.PSN, want) }
}

// DestQP checks BTH.DestQP.
func DestQP(want uint32) Checker {
	return func(t T, p *wire.Packet) { t.Helper(); equalHex(t, "destination QP", p.BTH.DestQP, want) }
}

// PKey checks BTH.PKey.
func PKey(want uint16) Checker {
	return func(t T, p *wire.Packet) { t.Helper(); equalHex(t, "P_Key", p.BTH.PKey, want) }
}

// Solicited checks BTH.SE.
func Solicited(want bool) Checker {
	return func(t T, p *wire.Packet) { t.Helper(); equal(t, "solicited event", p.BTH.SE, want) }
}

// MigReq checks BTH.MigReq.
func MigReq(want bool) Checker {
	return func(t T, p *wire.Packet) { t.Helper(); equal(t, "MigReq", p.BTH.MigReq, want) }
}

// AckReq checks BTH.AckReq.
func AckReq(want bool) Checker {
	return func(t T, p *wire.Packet) { t.Helper(); equal(t, "AckReq", p.BTH.AckReq, want) }
}

// Reserved checks that reserved bits and pad bytes are zero; see wire.Packet.CheckReserved.
func Reserved() Checker {
	return func(t T, p *wire.Packet) {
		t.Helper()
		if err := p.CheckReserved(); err != nil {
			t.Errorf("%v", err)
		}
	}
}

// has reports an error if the opcode of the packet lacks a header. The fields of a missing header are zero, and could
// match by accident.
func has(t T, p *wire.Packet, header string, ok bool) bool {
	t.Helper()
	if !ok {
		t.Errorf("%v has no %s", p.BTH.Opcode, header)
	}
	return ok
}

// SrcQP checks DETH.SrcQP.
func SrcQP(want uint32) Checker {
	return func(t T, p *wire.Packet) {
		t.Helper()
		if has(t, p, "DETH", p.BTH.Opcode.HasDETH()) {
			equalHex(t, "source QP", p.DETH.SrcQP, want)
		}
	}
}

// QKey checks DETH.QKey.
func QKey(want uint32) Checker {
	return func(t T, p *wire.Packet) {
		t.Helper()
		if has(t, p, "DETH", p.BTH.Opcode.HasDETH()) {
			equalHex(t, "Q_Key", p.DETH.QKey, want)
		}
	}
}

// RETH checks the whole header.
func RETH(want wire.RETH) Checker {
	return func(t T, p *wire.Packet) {
		t.Helper()
		if has(t, p, "RETH", p.BTH.Opcode.HasRETH()) {
			equalHex(t, "RETH virtual address", p.RETH.VA, want.VA)
			equalHex(t, "RETH R_Key", p.RETH.RKey, want.RKey)
			equal(t, "RETH DMA length", p.RETH.DMALen, want.DMALen)
		}
	}
}

// AtomicETH checks the whole header.
func AtomicETH(want wire.AtomicETH) Checker {
	return func(t T, p *wire.Packet) {
		t.Helper()
		if has(t, p, "AtomicETH", p.BTH.Opcode.HasAtomicETH()) {
			equalHex(t, "AtomicETH virtual address", p.AtomicETH.VA, want.VA)
			equalHex(t, "AtomicETH R_Key", p.AtomicETH.RKey, want.RKey)
			equalHex(t, "AtomicETH swap or add", p.AtomicETH.SwapAdd, want.SwapAdd)
			equalHex(t, "AtomicETH compare", p.AtomicETH.Compare, want.Compare)
		}
	}
}

// Syndrome checks AETH.Syndrome.
func Syndrome(want wire.Syndrome) Checker {
	return func(t T, p *wire.Packet) {
		t.Helper()
		if has(t, p, "AETH", p.BTH.Opcode.HasAETH()) {
			equal(t, "syndrome", p.AETH.Syndrome, want)
		}
	}
}

// SyndromeClass checks the class of AETH.Syndrome, and ignores credits and timer.
func SyndromeClass(want wire.SyndromeClass) Checker {
	return func(t T, p *wire.Packet) {
		t.Helper()
		if has(t, p, "AETH", p.BTH.Opcode.HasAETH()) {
			equal(t, "syndrome class", p.AETH.Syndrome.Class(), want)
		}
	}
}

// MSN checks AETH.MSN.
func MSN(want uint32) Checker {
	return func(t T, p *wire.Packet) {
		t.Helper()
		if has(t, p, "AETH", p.BTH.Opcode.HasAETH()) {
			equalHex(t, "MSN", p.AETH.MSN, want)
		}
	}
}

// AtomicAck checks AtomicAckETH.Orig.
func AtomicAck(want uint64) Checker {
	return func(t T, p *wire.Packet) {
		t.Helper()
		if has(t, p, "AtomicAckETH", p.BTH.Opcode.HasAtomicAckETH()) {
			equalHex(t, "original value", p.AtomicAckETH.Orig, want)
		}
	}
}

// Imm checks the immediate data.
func Imm(want uint32) Checker {
	return func(t T, p *wire.Packet) {
		t.Helper()
		if has(t, p, "ImmDt", p.BTH.Opcode.HasImm()) {
			equalHex(t, "immediate data", p.ImmDt.Imm, want)
		}
	}
}

// InvRKey checks IETH.RKey.
func InvRKey(want uint32) Checker {
	return func(t T, p *wire.Packet) {
		t.Helper()
		if has(t, p, "IETH", p.BTH.Opcode.HasIETH()) {
			equalHex(t, "invalidated R_Key", p.IETH.RKey, want)
		}
	}
}

// Payload checks the payload's bytes.
func Payload(want []byte) Checker {
	return func(t T, p *wire.Packet) {
		t.Helper()
		if !bytes.Equal(p.Payload, want) {
			t.Errorf("payload: got %d bytes % x, want %d bytes % x", len(p.Payload), p.Payload, len(want), want)
		}
	}
}

// PayloadLen checks the payload's length in bytes.
func PayloadLen(want int) Checker {
	return func(t T, p *wire.Packet) { t.Helper(); equal(t, "payload length", len(p.Payload), want) }
}
