"""What a message is answered: judgement, modes, codes, bytes."""
