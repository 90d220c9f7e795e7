// Package convert converts between the types of package schema and those of the services: mads, cm and rdmacm. Both
// ends of the process boundary use it, kproxy/services and ual/services.
package convert
