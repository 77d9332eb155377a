// Package node is the process: it reads the configuration, owns the data folder
// and the four listeners, finds its peers, and runs an engine behind them. The
// engine itself stands in package engine; its words are repeated here for those
// who embed one.
package node

import "chorale/node/engine"

// The words of an engine; package engine explains them.
type (
	Engine           = engine.Engine
	Seams            = engine.Seams
	Peers            = engine.Peers
	Settings         = engine.Settings
	SubscribeRequest = engine.SubscribeRequest
	Subscription     = engine.Subscription
)

// Open is engine.Open.
func Open(s Settings, seams Seams) (*Engine, error) { return engine.Open(s, seams) }
