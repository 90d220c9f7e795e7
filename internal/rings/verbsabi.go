package rings

// VerbsCommand is UserBuffer.Command in every verb of a process with the stock library of Linux Soft-RoCE (librxe of
// rdma-core, provider ABI 2). Out is the driver data of the uverbs command that the verb executes, in the machine's
// byte order. An offset is one of the shared memory, at which the library maps the queue; a size is that of the queue,
// which begins at the offset with its header.
//
//	verb        driver data in   driver data out
//	OpenUser    –                none; the descriptors are the memory and the doorbell
//	CreateCQ    –                queue
//	ResizeCQ    –                queue
//	CreateQP    –                queue of receives (zero with an SRQ), queue of sends; the pad of the latter is the
//	                             index of the QP in Header
//	CreateSRQ   –                queue, u32 number of the SRQ, u32 zero
//	ModifySRQ   u64 address      queue, if the size changes: the kernel's driver stores it at the address
//	CreateAV    –                u32 number of the address vector, u32 zero
//
// A queue is u64 offset, u32 size, u32 pad.
const VerbsCommand = 2

// The sizes of the driver data in bytes.
const (
	VerbsQueueSize = 16
	VerbsQPSize    = 2 * VerbsQueueSize
	VerbsSRQSize   = VerbsQueueSize + 8
	VerbsAVSize    = 8
)

// VerbsIndex is the offset of the index in the driver data of CreateQP.
const VerbsIndex = VerbsQueueSize + 12

// AppendVerbs appends the queue, without control words, as driver data.
func (u *UserQueue) AppendVerbs(b []byte, pad uint32) []byte {
	b = ne.AppendUint64(b, u.Offset)
	b = ne.AppendUint32(b, uint32(u.Size))
	return ne.AppendUint32(b, pad)
}

// EncodeVerbs returns the driver data of CreateQP.
func (u *UserQP) EncodeVerbs() []byte {
	recv := UserQueue{Offset: u.RecvOffset}
	if u.RecvOffset != 0 {
		recv.Size = uint64(u.Recv.Bytes())
	}
	return u.Send.AppendVerbs(recv.AppendVerbs(nil, 0), u.Index)
}

// EncodeVerbs returns the driver data of CreateAV.
func (u *UserAV) EncodeVerbs() []byte { return ne.AppendUint32(ne.AppendUint32(nil, u.Number), 0) }

// EncodeVerbsSRQ returns the driver data of CreateSRQ.
func EncodeVerbsSRQ(at *UserQueue, number uint32) []byte {
	return ne.AppendUint32(ne.AppendUint32(at.AppendVerbs(nil, 0), number), 0)
}
