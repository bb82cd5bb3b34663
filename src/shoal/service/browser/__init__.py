"""What only a browser needs: sessions, and lists of one's own questions."""
