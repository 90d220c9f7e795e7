package nvmet

import "context"

// io carries out a command of an I/O queue.
func (r *request) io(ctx context.Context, c *controller) error {
	const unitAccess = 1 << 30
	if op := r.opcode(); op != opFlush && op != opRead && op != opWrite {
		return invalidOpcode
	}
	if id := r.namespace(); id != theNamespace && (id != allNamespaces || r.opcode() != opFlush) {
		return invalidNamespace
	}
	disk := c.t.cfg.Backend
	if r.opcode() == opFlush {
		return r.failed(disk.Sync(), writeFault)
	}
	first, count := r.u64(40), uint64(r.dword(12)&0xffff)+1
	if blocks := c.t.blocks(); first >= blocks || count > blocks-first {
		return lbaOutOfRange
	}
	at, n := int64(first)*blockLen, int(count)*blockLen
	if n > maxTransfer {
		return invalidField
	}
	if r.opcode() == opRead {
		return r.push(ctx, n, func(b []byte) error {
			_, err := disk.ReadAt(b, at)
			return r.failed(err, unrecoveredReadError)
		})
	}
	return r.pull(ctx, n, func(b []byte) error {
		_, err := disk.WriteAt(b, at)
		if err == nil && r.dword(12)&unitAccess != 0 {
			err = disk.Sync()
		}
		return r.failed(err, writeFault)
	})
}

// failed logs an error of the Backend, and returns the status for it.
func (r *request) failed(err error, s status) error {
	if err == nil {
		return nil
	}
	r.q.log.Error("nvmet: the back end has failed", "error", err)
	return s
}
