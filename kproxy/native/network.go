package native

// Network is the kind of socket that carries messages, as package net names it.
const Network = "unixpacket"
