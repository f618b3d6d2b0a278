// Package stores names our own backends as candidates of package bench, and
// beside them bare Pebble, the engine of one of them. Who measures a store of
// their own needs package bench only, and so none of these engines.
package stores
