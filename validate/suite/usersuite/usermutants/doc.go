// Package usermutants holds faults in the parts of user mode, for the self test of package usersuite: user access
// layers, user libraries, proxies and drivers with one deliberate fault each. Only programs with a self test import it.
package usermutants
