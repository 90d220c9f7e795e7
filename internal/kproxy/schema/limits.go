package schema

// Version is the version of the protocol. Both ends must have the same.
const Version = 2

// Limits of the protocol. The daemon rejects a request beyond them.
const (
	MaxMessage = 64 << 10 // bytes of a message in any encoding
	MaxPrivate = 4096     // bytes of private data of a user library, in each direction
	MaxFiles   = 8        // descriptors of a message
	MaxText    = 1024     // bytes of a name or an error's detail
	MaxStatus  = 48 << 10 // bytes of a part of the status
	MaxControl = 48 << 10 // bytes of the request or reply of an operation of the daemon
	MaxHCAs    = 64
	MaxPorts   = 254
	MaxTable   = 4096     // entries of all GID or P_Key tables of a port in a reply
	MaxSLs     = 16       // service levels
	MaxZone    = 255      // bytes of the name of a network interface
	MaxVendor  = 16384    // bytes of a vendor call
	MaxObjects = 64       // objects of a vendor call
	MaxBatch   = 1024     // work requests, or completions, of a message
	MaxSGE     = 1024     // elements of a work request
	MaxInline  = 32 << 10 // bytes of inline data of a work request
	MaxHeader  = 4096     // bytes of the header of a large send
)

// ClipText returns the first MaxText bytes of s, or s if it is shorter.
func ClipText(s string) string { return s[:min(len(s), MaxText)] }
