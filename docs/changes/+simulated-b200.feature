Simulated cards: `b200`, with its MIG profiles and places.
