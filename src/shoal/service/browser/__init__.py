"""What only a browser needs: sessions, and lists of a person's own questions."""
