// Package cmsuite holds the cases for management datagrams and connection management over the driver under test. MAD
// services run on the driver's special QPs. The connection manager of the access layer communicates with another
// manager, or with a peer that the certifier plays message by message (script).
//
// A driver fails here if its QP1 does not carry datagrams as IBTA requires, if its QPs do not reach the states that a
// connection needs, or if its attributes and events lack what a manager needs.
//
// Each file holds one area: its requirements, and below each requirement the cases that prove it. Package cmmutants
// holds the drivers that break the requirements. Package validate describes the form of cases, under "For authors of
// cases".
package cmsuite
