"""What is kept between requests: sessions, events, messages between replicas."""
