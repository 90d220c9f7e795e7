// Package arena provides memory that a daemon shares with one client process, and a doorbell between the two. The
// memory is a sparse memfd of fixed size that the daemon creates, seals against growing and shrinking, and passes to
// the client. An access of the daemon therefore never reaches behind the end of the file, whatever the client does.
//
//	m, err := arena.Create(64 << 20)      // daemon
//	…                                     // pass m.File()
//	m, err := arena.Open(file)            // client
//
// Pages allocates parts of the memory. The pages of a part exist before the part is used, so that a machine that is
// short of memory shows as an error of Alloc.
//
// Memory works on Linux. Elsewhere, Create and Open fail with errors.ErrUnsupported.
package arena
